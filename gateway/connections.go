package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	// refusalTime bounds how long a refused client may take to send the beginning of a
	// request, and to read the answer.
	refusalTime = time.Second

	// maxRefusals is the maximum of refused connections that are open at once, or half
	// of Config.MaxConnections if that is less, since each has a file open. The gateway
	// closes further ones without an answer, which bounds the cost of a flood.
	maxRefusals = 64

	settleInterval = 5 * time.Millisecond
)

// connections counts the connections of a listener, and refuses those beyond the
// limits. The counts are exact.
type connections struct {
	max, maxPerIP int          // 0 means no limit
	exempt        trustedPeers // from maxPerIP: a proxy carries the connections of many clients
	encrypted     bool         // whether a refusal would need a TLS handshake

	mu    sync.Mutex
	open  int
	perIP map[netip.Prefix]int // unused if maxPerIP is 0

	refused, refusedPerIP atomic.Int64

	// busy is the number of connections whose request is being read or answered, or
	// has not begun.
	busy      atomic.Int64
	listening *limitedListener // nil before limit

	refusals chan struct{} // a semaphore of refusalsFor places
	writing  sync.WaitGroup
}

func newConnections(cfg Config) *connections {
	return &connections{
		max: cfg.MaxConnections, maxPerIP: cfg.MaxConnectionsPerIP,
		exempt: cfg.TrustedProxies, encrypted: cfg.TLS != nil,
		perIP: map[netip.Prefix]int{}, refusals: make(chan struct{}, refusalsFor(cfg.MaxConnections)),
	}
}

// refusalsFor returns how many refused connections may be open at once.
func refusalsFor(maxConnections int) int {
	if maxConnections == 0 {
		return maxRefusals
	}
	return min(max(maxConnections/2, 1), maxRefusals)
}

// enter counts a connection. refusal is nil if the connection is within the limits.
func (c *connections) enter(client netip.Prefix) (refusal *wire.Status) {
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

// count returns the number of open connections.
func (c *connections) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

func (c *connections) leave(client netip.Prefix) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	if c.countsPerIP(client) {
		if c.perIP[client]--; c.perIP[client] == 0 {
			delete(c.perIP, client)
		}
	}
}

func (c *connections) countsPerIP(client netip.Prefix) bool {
	return c.maxPerIP > 0 && client.IsValid() && !c.exempt.contain(client.Addr())
}

// refuse answers a connection that is not counted, and closes it. It does not block.
func (c *connections) refuse(conn net.Conn, why *wire.Status) {
	select {
	case c.refusals <- struct{}{}:
	default:
		conn.Close()
		return
	}
	c.writing.Go(func() {
		defer func() { <-c.refusals }()
		defer conn.Close()
		if c.encrypted { // a handshake would cost more than refusing saves
			return
		}
		_ = conn.SetDeadline(time.Now().Add(refusalTime))
		// Go's client ignores an answer that arrives before it has sent a request.
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			return
		}
		if _, err := io.WriteString(conn, plainRefusal(why)); err != nil {
			return
		}
		// Closing the connection with unread data would reset it, and the client might
		// lose the answer.
		if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
			_, _ = io.Copy(io.Discard, conn)
		}
	})
}

// plainRefusal returns the answer to a request that the gateway has not read. Its body has
// the fields of errors of /v1, which include those of all other paths.
func plainRefusal(why *wire.Status) string {
	body, _ := wire.Encode(wire.Failure{Error: why.Name, Detail: why.Text}) // does not fail for texts
	return fmt.Sprintf("HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Type: application/json\r\n"+
		"Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n"+
		"%s: %s\r\n%s: 1\r\nContent-Length: %d\r\n\r\n%s",
		why.Code, http.StatusText(why.Code), wire.ErrorHeader, why.Name, wire.RetryAfterHeader, len(body), body)
}

// limit returns a listener that applies the limits to its connections.
func (c *connections) limit(ln net.Listener) net.Listener {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listening = &limitedListener{Listener: ln, connections: c, closed: make(chan struct{})}
	return c.listening
}

// settle closes the listener, and waits until no connection is busy, or ctx ends. Each
// answer must close its connection by now.
//
// http.Server.Shutdown closes connections without an answer if their request has just
// been read, so they must have been served before.
func (c *connections) settle(ctx context.Context) {
	c.mu.Lock()
	listening := c.listening
	c.mu.Unlock()
	if listening != nil {
		listening.stop()
	}
	beat := time.NewTicker(settleInterval)
	defer beat.Stop()
	for c.busy.Load() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		}
	}
}

// changed is http.Server.ConnState.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	if layer, ok := conn.(*tls.Conn); ok {
		conn = layer.NetConn()
	}
	counted, ok := conn.(*countedConn)
	if !ok {
		return
	}
	busy := state == http.StateNew || state == http.StateActive
	switch was := counted.busy.Swap(busy); {
	case busy && !was:
		c.busy.Add(1)
	case was && !busy:
		c.busy.Add(-1)
	}
}

type limitedListener struct {
	net.Listener
	connections *connections

	stopping, closing sync.Once
	stopped           atomic.Bool
	err               error // of stop
	closed            chan struct{}
}

// stop closes the listener. Accept then returns at Close.
func (l *limitedListener) stop() {
	l.stopping.Do(func() {
		l.stopped.Store(true)
		l.err = l.Listener.Close()
	})
}

// Close ends Accept.
func (l *limitedListener) Close() error {
	l.stop()
	l.closing.Do(func() { close(l.closed) })
	return l.err
}

// Accept refuses connections beyond the limits, and returns the next one within them.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil && l.stopped.Load() {
			<-l.closed // http.Server takes the error for a failure until it closes the listener
		}
		if err != nil {
			return nil, err
		}
		client := clientOf(ipOf(conn.RemoteAddr()))
		refusal := l.connections.enter(client)
		if refusal == nil {
			return &countedConn{Conn: conn, connections: l.connections, client: client}, nil
		}
		l.connections.refuse(conn, refusal)
	}
}

// ipOf returns the IP address of a connection, or the zero Addr if it has none.
func ipOf(remote net.Addr) netip.Addr {
	if tcp, ok := remote.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr()
	}
	return netip.Addr{}
}

// countedConn is a connection that counts until it is closed.
type countedConn struct {
	net.Conn
	connections *connections
	client      netip.Prefix
	busy        atomic.Bool // counts in connections.busy
	closed      atomic.Bool
}

func (c *countedConn) Close() error {
	if !c.closed.Swap(true) {
		c.connections.leave(c.client)
	}
	return c.Conn.Close()
}

// CloseWrite closes the sending side. net/http calls it before Close when it has not read
// a request to its end.
func (c *countedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// NetConn returns the wrapped connection, for jsonhttp.HungUp.
func (c *countedConn) NetConn() net.Conn { return c.Conn }
