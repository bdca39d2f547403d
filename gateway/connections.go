package gateway

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots/clock"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	// throttleTime is how long a connection rests after a request of a flood.
	throttleTime = time.Second

	// settleTime bounds how long connections that are open when the listener closes may
	// take to begin their request. http.Server.Shutdown then closes them.
	settleTime     = 5 * time.Second
	settleInterval = 5 * time.Millisecond
)

// connections are the connections of a listener. Those beyond the limits are refused.
type connections struct {
	all     *ops.Connections // those of other listeners, too
	refuser *refuser
	open    atomic.Int64 // of this listener

	// busy is the number of connections that are new, or whose request is being read or
	// answered.
	busy      atomic.Int64
	listening atomic.Pointer[limitedListener] // nil before limit

	resting context.Context // all rests of connections end with it
	wake    context.CancelFunc
}

func newConnections(cfg Config) *connections {
	resting, wake := context.WithCancel(context.Background())
	return &connections{
		all:     &cfg.Lending.Connections,
		resting: resting, wake: wake, refuser: newRefuser(cfg),
	}
}

func (c *connections) count() int { return int(c.open.Load()) }

type countedKey struct{}

// withConn is http.Server.ConnContext. throttle and jsonhttp.HungUp need it.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	return jsonhttp.WithConn(context.WithValue(ctx, countedKey{}, counted(conn)), conn)
}

// throttle makes the connection of a request rest after the answer, unless it may carry the
// requests of several clients.
func (c *connections) throttle(r *http.Request) {
	if conn, _ := r.Context().Value(countedKey{}).(*countedConn); conn != nil && conn.client.IsValid() {
		conn.restUntil.Store(new(time.Now().Add(throttleTime)))
	}
}

// limit returns a listener that applies the limits to its connections.
func (c *connections) limit(ln net.Listener) net.Listener {
	listening := &limitedListener{Listener: ln, connections: c, ended: make(chan struct{}), closed: make(chan struct{})}
	c.listening.Store(listening)
	return listening
}

// settle closes the listener, and waits for up to settleTime until no connection is busy,
// or ctx ends. Each answer must close its connection by now.
//
// http.Server.Shutdown closes connections without an answer if their request has just
// been read, so they must have been served before.
func (c *connections) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if listening := c.listening.Load(); listening != nil {
		listening.stop()
		select {
		case <-listening.ended: // each accepted connection is busy by now, or has been
		case <-listening.closed:
		case <-ctx.Done():
		}
	}
	c.wake()
	for c.busy.Load() > 0 && ctx.Err() == nil {
		clock.Sleep(ctx, settleInterval)
	}
}

// changed is http.Server.ConnState.
//
// net/http calls it before it reads the next request of the connection, which waits while
// the connection rests.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	counted := counted(conn)
	if counted == nil {
		return
	}
	busy := state == http.StateNew || state == http.StateActive
	switch was := counted.busy.Swap(busy); {
	case busy && !was:
		c.busy.Add(1)
	case was && !busy:
		c.busy.Add(-1)
	}
	if rest := counted.rest(); rest > 0 && state == http.StateIdle {
		clock.Sleep(c.resting, rest)
	}
}

func counted(conn net.Conn) *countedConn {
	if layer, ok := conn.(*tls.Conn); ok {
		conn = layer.NetConn()
	}
	found, _ := conn.(*countedConn)
	return found
}

type limitedListener struct {
	net.Listener
	connections *connections

	stopping, ending, closing sync.Once
	stopped                   atomic.Bool
	err                       error         // of stop
	ended                     chan struct{} // closed when Accept has returned the last connection
	closed                    chan struct{}
}

func (l *limitedListener) stop() {
	l.stopping.Do(func() {
		l.stopped.Store(true)
		l.err = l.Listener.Close()
	})
}

func (l *limitedListener) Close() error {
	l.stop()
	l.closing.Do(func() { close(l.closed) })
	return l.err
}

// Accept returns the next connection within the limits, or one beyond them that is read to be
// refused.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil && l.stopped.Load() {
			l.ending.Do(func() { close(l.ended) })
			<-l.closed // http.Server takes the error for a failure until it closes the listener
		}
		if err != nil {
			return nil, err
		}
		counted := &countedConn{Conn: conn, connections: l.connections, client: l.connections.all.ClientAt(conn.RemoteAddr())}
		counted.refusal = l.connections.all.Admit(counted.client)
		switch {
		case counted.refusal == nil:
			l.connections.open.Add(1)
			return counted, nil
		case l.connections.refuser.read(counted.client):
			counted.until = time.Now().Add(refusalTime)
			return counted, nil
		}
		reset(conn)
	}
}

// countedConn is a connection that counts until it is closed.
type countedConn struct {
	net.Conn
	connections *connections
	client      netip.Prefix
	refusal     *wire.Status // nil within the limits
	until       time.Time    // when a refused connection ends
	busy        atomic.Bool  // counts in connections.busy
	closed      atomic.Bool
	restUntil   atomic.Pointer[time.Time] // nil for a connection that never rested
}

// rest returns how long the connection still rests; it may be negative.
func (c *countedConn) rest() time.Duration {
	if until := c.restUntil.Load(); until != nil {
		return time.Until(*until)
	}
	return 0
}

// Close keeps the connection's place in the count of its client until the rest is over:
// a client could otherwise open a new connection for each request.
func (c *countedConn) Close() error {
	switch {
	case c.closed.Swap(true):
	case c.refusal != nil:
		c.connections.refuser.done()
	default:
		c.connections.open.Add(-1)
		c.connections.all.LeaveTotal()
		if rest := c.rest(); rest > 0 {
			time.AfterFunc(rest, func() { c.connections.all.LeaveIP(c.client) })
		} else {
			c.connections.all.LeaveIP(c.client)
		}
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
