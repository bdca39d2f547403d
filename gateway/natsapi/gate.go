package natsapi

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

// Gate connects a Service to an embedded server. While the service has many requests to
// handle, the connection reads nothing. The library would drop what it reads then, also the
// requests of clients that send few. So they stay with the server, which disconnects the
// client that sends the most (natsembed, maxBacklog).
//
// An external server would rather close the connection of the service.
type Gate struct {
	server nats.InProcessConnProvider
	behind atomic.Pointer[func() bool] // nil before the service starts
}

// NewGate returns a Gate to a server, for nats.InProcessServer and for Config.Gate.
func NewGate(server nats.InProcessConnProvider) *Gate { return &Gate{server: server} }

// InProcessConn implements nats.InProcessConnProvider.
func (g *Gate) InProcessConn() (net.Conn, error) {
	conn, err := g.server.InProcessConn()
	if err != nil {
		return nil, err
	}
	return &gatedConn{Conn: conn, gate: g}, nil
}

// hold makes the connection wait while behind returns true.
func (g *Gate) hold(behind func() bool) {
	if g != nil {
		g.behind.Store(&behind)
	}
}

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

// isBehind reports whether a subscription has half of the messages that it has room for.
func (s *Service) isBehind() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.subs {
		messages, bytes, err := sub.Pending()
		if err == nil && (messages > pendingMessages/2 || bytes > pendingBytes/2) {
			return true
		}
	}
	return false
}
