package admission

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// gateBytes is how much a gated connection reads between two looks at the requests that
	// have not been handled. It has far fewer messages than a subscription has room for.
	gateBytes = 16 << 10

	// gateInterval is how often a gated connection looks while the service is behind.
	gateInterval = time.Millisecond
)

// Gate connects a service to an embedded server. While the service is behind with many
// requests, the connection reads nothing. The library would drop what it reads then, also the
// requests of clients that send few. So they stay with the server, which disconnects the
// client that sends the most (natsembed, package listener).
//
// An external server would rather close the connection of the service.
type Gate struct {
	Server nats.InProcessConnProvider

	behind atomic.Pointer[func() bool] // nil before the service starts
}

// InProcessConn implements nats.InProcessConnProvider.
func (g *Gate) InProcessConn() (net.Conn, error) {
	conn, err := g.Server.InProcessConn()
	return &gatedConn{Conn: conn, gate: g}, err
}

// Hold makes the connection wait while behind returns true.
func (g *Gate) Hold(behind func() bool) { g.behind.Store(&behind) }

type gatedConn struct {
	net.Conn
	gate *Gate
	read int // bytes since the last look
}

// Read implements net.Conn. The library calls it from one goroutine.
func (c *gatedConn) Read(b []byte) (int, error) {
	if c.read >= gateBytes {
		c.read = 0
		for behind := c.gate.behind.Load(); behind != nil && (*behind)(); {
			time.Sleep(gateInterval)
		}
	}
	n, err := c.Conn.Read(b)
	c.read += n
	return n, err
}
