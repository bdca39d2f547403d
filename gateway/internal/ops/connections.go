package ops

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/kvslots/kvslots/kvslots/clientnet"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// Connections counts the open connections of clients over HTTP and TCP, and refuses those
// beyond the limits. The counts are exact. The zero Connections has no limits. It is safe for
// concurrent use.
type Connections struct {
	max, maxPerIP int                        // 0 means no limit
	exempt        func(addr netip.Addr) bool // see ClientAt; nil: none

	mu    sync.Mutex
	open  int
	perIP map[netip.Prefix]int // unused if maxPerIP is 0

	refused, refusedPerIP atomic.Int64
}

// Limit sets the maximum of connections, and that of one client; 0 means no limit. The second
// does not apply to addresses for which exempt returns true. Limit must be called before the
// first connection.
func (c *Connections) Limit(most, mostPerIP int, exempt func(addr netip.Addr) bool) {
	c.max, c.maxPerIP, c.exempt, c.perIP = most, mostPerIP, exempt, map[netip.Prefix]int{}
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

// Enter counts a connection, or returns why it is refused. The result is nil if the
// connection is within the limits; its caller must then call Leave and LeaveIP once.
func (c *Connections) Enter(client netip.Prefix) (refusal *wire.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.max > 0 && c.open >= c.max {
		c.refused.Add(1)
		return &wire.MaxConnections
	}
	if c.countsPerIP(client) {
		if c.perIP[client] >= c.maxPerIP {
			c.refusedPerIP.Add(1)
			return &wire.MaxConnectionsPerIP
		}
		c.perIP[client]++
	}
	c.open++
	return nil
}

// Leave ends the count of a connection, and LeaveIP that of its client.
func (c *Connections) Leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
}

func (c *Connections) LeaveIP(client netip.Prefix) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.countsPerIP(client) {
		if c.perIP[client]--; c.perIP[client] == 0 {
			delete(c.perIP, client)
		}
	}
}

func (c *Connections) countsPerIP(client netip.Prefix) bool {
	return c.maxPerIP > 0 && client.IsValid()
}

// Refused returns the number of connections that each limit has refused.
func (c *Connections) Refused() (total, perIP int64) { return c.refused.Load(), c.refusedPerIP.Load() }
