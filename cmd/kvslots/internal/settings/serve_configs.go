package settings

import (
	"cmp"
	"time"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/dflockdtcp"
	"github.com/kvslots/kvslots/gateway/forrst"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/natsembed"
)

// The methods below return the configurations of a gateway's parts, with the values of the flags.

func (s *Serve) HTTP() gateway.Config {
	c := s.http
	c.MaxConnections = cmp.Or(c.MaxConnections, connectionsFor(openFilesLimit()))
	c.MaxConnectionsPerIP = cmp.Or(c.MaxConnectionsPerIP, max(1, c.MaxConnections/2))
	// On loopback every page in the browser of a user of this machine reaches the gateway.
	if c.Hosts == nil && IsLoopback(s.HTTPAddr) && !s.controlsAccess() {
		c.Hosts = []string{}
	}
	c.TLS, c.Tokens = s.TLS(), s.Tokens
	return c
}

func (s *Serve) Service() natsapi.Config {
	c := s.service
	c.SessionTimes, c.Tokens = s.Sessions, s.Tokens
	return c
}

func (s *Serve) TCP() dflockdtcp.Config {
	return dflockdtcp.Config{SessionTimes: s.Sessions, TLS: s.TLS(), Tokens: s.Tokens}
}

func (s *Serve) Forrst() forrst.Config {
	c := s.forrst
	c.Tokens = s.Tokens
	return c
}

func (s *Serve) Store() kvslots.Config {
	c := s.store
	c.MaxPlaces, c.MaxPlacesPerOrigin = s.Waits.Total, s.Waits.PerIP
	if s.Cluster.Given() {
		c.Replicas = s.Cluster.Nodes()
	}
	return c
}

// ownConnections are the connections of the gateway among the listener's clients: for the
// service and for calls of functions.
const ownConnections = 2

// Embedded returns the configuration of the embedded server. Sync always is SyncGroup, which
// has the same durability for clients.
func (s *Serve) Embedded() natsembed.Config {
	c := s.embedded
	c.Local, c.Cluster = true, s.Cluster.config()
	if c.Sync == natsembed.SyncAlways {
		c.Sync = natsembed.SyncGroup
	}
	c.User, c.Password, c.Token = s.NATS.user, s.NATS.password, s.NATS.token
	c.TLSCert, c.TLSKey, c.TLSCA = s.NATS.tlsCert, s.NATS.tlsKey, s.NATS.tlsCA
	// Clients that are not authenticated yet are among them, and open a file each, too.
	clients := cmp.Or(c.MaxConnections, min(natsembed.DefaultMaxConnections, connectionsFor(openFilesLimit())))
	c.MaxConnections, c.MaxConnectionsPerIP = clients+ownConnections, cmp.Or(s.http.MaxConnectionsPerIP, max(1, clients/2))
	c.Insecure = s.isInsecure("nats")
	c.Functions.Prefix = s.forrst.Prefix
	c.Functions.ReplyTime = s.forrst.Timeout + time.Second // the call has ended by then
	return c
}
