package settings

import (
	"net/netip"
	"time"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/dflockdtcp"
	"github.com/kvslots/kvslots/gateway/forrst"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/natsembed"
)

// The configurations of the parts of a gateway, as far as flags say.

func (s *Serve) HTTP() gateway.Config {
	return gateway.Config{
		Hosts:       s.allowedHosts(),
		RateLimit:   s.httpRateLimit,
		RateBurst:   s.httpRateBurst,
		CORSOrigins: splitList(s.httpOrigins),

		MaxConnections: s.connections(), MaxConnectionsPerIP: s.maxConnectionsPerIP.of(s.connections()),
		TrustedProxies: s.proxies(),
	}
}

// allowedHosts returns the names that the header Host may have, or nil for every name.
// On loopback every page in the browser of a user of this machine reaches the gateway.
func (s *Serve) allowedHosts() []string {
	if s.httpHosts == "" && (s.controlsAccess() || !IsLoopback(s.HTTPAddr)) {
		return nil
	}
	return append([]string{}, splitList(s.httpHosts)...)
}

func (s *Serve) proxies() []netip.Prefix {
	var found []netip.Prefix
	for _, entry := range splitList(s.httpProxies) {
		if network, err := parseNetwork(entry); err == nil { // was checked when the flag was set
			found = append(found, network)
		}
	}
	return found
}

func (s *Serve) Service() natsapi.Config {
	return natsapi.Config{SessionTimes: s.Sessions, ReplyPrefixes: splitList(s.replyPrefixes)}
}

func (s *Serve) TCP() dflockdtcp.Config {
	return dflockdtcp.Config{SessionTimes: s.Sessions, KeepOnDisconnect: !s.autoRelease}
}

func (s *Serve) Forrst() forrst.Config {
	return forrst.Config{
		Prefix: s.functions.prefix, Timeout: s.functions.timeout, MaxWait: s.store.MaxWait,
		NoForceRelease: !s.functions.forceRelease,
	}
}

func (s *Serve) Store() kvslots.Config {
	c := s.store
	c.MaxPlaces, c.MaxPlacesPerOrigin = s.Waits.Total, s.Waits.PerIP
	c.MaxPoolsPerOrigin = s.poolsPerIP.of(c.MaxPools)
	c.MaxLocksPerSession, c.MaxLocksPerOrigin = s.locksPerSession.of(c.MaxLocks), s.locksPerIP.of(c.MaxLocks)
	return c
}

// ownConnections are the connections of the gateway among the listener's clients: for the
// service and for calls of functions.
const ownConnections = 2

func (s *Serve) Embedded() natsembed.Config {
	return natsembed.Config{
		DataDir:  s.DataDir,
		MaxStore: s.MaxStore,
		Sync:     s.embeddedSync(),
		Local:    true,
		Addr:     s.NATSAddr,
		User:     s.NATS.user, Password: s.NATS.password, Token: s.NATS.token,
		Nkeys:   splitList(s.natsNkeys),
		TLSCert: s.NATS.tlsCert, TLSKey: s.NATS.tlsKey, TLSCA: s.NATS.tlsCA,
		Insecure:       s.natsInsecure,
		MaxConnections: s.connectionsOfNATS() + ownConnections, MaxConnectionsPerIP: s.natsMaxConnectionsPerIP.of(s.connectionsOfNATS()),
		Functions: natsembed.Functions{
			Prefix: s.functions.prefix, User: s.functions.user, Password: s.functions.password, Nkeys: splitList(s.functions.nkeys),
			ReplyTime: s.functions.timeout + time.Second, // the call has ended by then
		},
	}
}

// embeddedSync returns the sync mode of the embedded server. For always it is SyncGroup,
// which has the same durability for clients.
func (s *Serve) embeddedSync() natsembed.Sync {
	if s.sync == string(natsembed.SyncAlways) {
		return natsembed.SyncGroup
	}
	return natsembed.Sync(s.sync)
}
