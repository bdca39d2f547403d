package ops

import (
	"net"
	"net/netip"

	"github.com/kvslots/kvslots/kvslots/clientnet"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// Connections counts the open connections of clients over HTTP and TCP.
type Connections struct {
	Limiter[netip.Prefix]
	exempt func(addr netip.Addr) bool // see ClientAt; nil: none
}

// LimitTo sets the limits: see Limit. Limits.PerIP does not apply to addresses for which exempt
// returns true.
func (c *Connections) LimitTo(limits Limits, exempt func(addr netip.Addr) bool) {
	c.Limit(limits)
	c.exempt = exempt
}

// ClientAt returns the client at the other end of a connection, or the zero Prefix for a
// trusted proxy, which carries the connections of many clients, and for an unknown address.
func (c *Connections) ClientAt(remote net.Addr) netip.Prefix {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	addr := tcp.AddrPort().Addr()
	if c.exempt != nil && c.exempt(addr) {
		return netip.Prefix{}
	}
	return clientnet.Of(addr)
}

// Admit counts a connection, or returns why it is refused: see Enter.
func (c *Connections) Admit(client netip.Prefix) (refusal *wire.Status) {
	return [...]*wire.Status{nil, &wire.MaxConnections, &wire.MaxConnectionsPerIP}[c.Enter(client)]
}
