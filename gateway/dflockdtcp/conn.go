package dflockdtcp

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	// writeTime bounds the time in which a client must read a reply.
	writeTime = 5 * time.Second

	// authPause is the time between error_auth and the end of the connection, against
	// guesses at the token.
	authPause = 100 * time.Millisecond

	// lingerTime bounds how long a connection stays open for a client to read the last
	// reply. What the client sends meanwhile is dropped: closing a connection with unread
	// data would reset it, and the client might lose the reply.
	lingerTime = time.Second
)

// conn is a client's connection. It is the ops.Request of its requests.
type conn struct {
	server *Server
	raw    net.Conn
	stream net.Conn // raw, or TLS over it
	remote string
	origin string
	input  *input
	ctx    context.Context // ends when the client has gone
	cancel context.CancelFunc
	gone   atomic.Bool // the client has gone

	trace    ops.Trace // of the request being served
	admitted bool      // the client has sent the token

	mu      sync.Mutex
	session *session // nil before the first request that needs one
}

func newConn(s *Server, raw net.Conn) *conn {
	c := &conn{server: s, raw: raw, stream: raw, remote: raw.RemoteAddr().String(), input: newInput()}
	c.origin = ops.Origin(c.remote)
	if s.cfg.TLS != nil {
		c.stream = tls.Server(raw, s.cfg.TLS)
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// serve serves the requests until the client has gone, or one of them ends the connection.
func (c *conn) serve() {
	defer c.raw.Close()
	defer c.cancel()
	read := make(chan struct{})
	go func() {
		defer close(read)
		c.read()
	}()
	for c.next() {
	}
	c.endSession()
	c.linger(read)
	c.raw.Close()
	<-read
}

// read reads until the client has gone, and then ends the session: that ends the request being
// served, and releases what the connection holds, with one write.
func (c *conn) read() {
	defer ops.Recover(c.server.log)
	_ = c.input.fill(c.stream)
	c.gone.Store(true)
	if s := c.currentSession(); s != nil {
		s.end()
	}
	c.cancel()
}

func (c *conn) linger(read <-chan struct{}) {
	c.input.ignore()
	half, ok := c.stream.(interface{ CloseWrite() error })
	if c.gone.Load() || !ok || half.CloseWrite() != nil {
		return
	}
	_ = c.raw.SetDeadline(time.Now().Add(lingerTime))
	<-read
}

func (c *conn) next() (more bool) {
	r, err := c.input.receive()
	x := &exchange{conn: c, began: time.Now(), command: "none"}
	defer x.finish()
	defer func() {
		if reason := recover(); reason != nil {
			c.trace.Log(c.server.log, slog.LevelError, ops.Panicked, ops.PanicAttrs(reason)...)
			c.server.service.Events.Failed(wire.Internal.Name)
			_ = x.send(replyError)
			more = false
		}
	}()
	c.trace = ops.Trace{RequestID: ops.NewRequestID()}
	switch {
	case errors.Is(err, errForeign) && !c.admitted && c.server.cfg.Tokens.Required():
		return x.admit(request{})
	case errors.Is(err, errLineTooLong), errors.Is(err, errLineTooLate), errors.Is(err, errForeign):
		_ = x.send(replyError)
		return false
	case errors.Is(err, errStopped):
		_ = x.send(replyDraining)
		return false
	case err != nil:
		return false
	}
	return x.serve(r) && x.sent == nil
}

func (c *conn) currentSession() *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

func (c *conn) endSession() {
	if s := c.currentSession(); s != nil {
		s.end()
		c.server.withSession.Add(-1)
	}
}

// openSession returns the connection's session, which it opens at the first call. The creation
// of a session does not end with the client, so that its outcome is known, and the session can
// be ended.
func (c *conn) openSession() (*session, error) {
	if s := c.currentSession(); s != nil {
		return s, nil
	}
	call := &ops.Call{Operation: ops.CreateSession, Request: c, Arrived: time.Now()}
	if err := c.server.service.Do(context.Background(), context.Background(), call, func() {}); err != nil {
		return nil, err
	}
	s := newSession(c, call.Session)
	c.server.withSession.Add(1)
	c.mu.Lock()
	c.session = s
	c.mu.Unlock()
	return s, nil
}

func (c *conn) Remote() string { return c.remote }

func (c *conn) Origins() iter.Seq[string] {
	return func(yield func(string) bool) { yield(c.origin) }
}

func (c *conn) Trace() ops.Trace { return c.trace }

func (c *conn) HungUp() bool { return c.gone.Load() }

type exchange struct {
	*conn
	began   time.Time
	command string // for metrics and logs: a known one, or "none"
	reply   string // without its end; "" if there was none
	sent    error  // the client has not received the reply
}

func (x *exchange) send(reply string) error {
	if x.reply != "" {
		return x.sent
	}
	x.reply = reply
	_ = x.stream.SetWriteDeadline(time.Now().Add(writeTime))
	_, x.sent = io.WriteString(x.stream, reply+"\n")
	return x.sent
}

func (x *exchange) finish() {
	if x.command == "none" && x.reply == "" { // the client has gone between requests
		return
	}
	kind, took := kindOf(x.reply), time.Since(x.began)
	if kind == "" {
		kind = "none"
	}
	x.server.metrics.duration.WithLabelValues(x.command, kind).Observe(took.Seconds())
	x.trace.Log(x.server.log, slog.LevelDebug, "request",
		slog.String("command", x.command),
		slog.String("reply", kind),
		slog.Float64("duration_ms", ops.Milliseconds(took)))
}

func (x *exchange) serve(r request) bool {
	c := commands[r.command]
	switch {
	case !x.admitted && x.server.cfg.Tokens.Required():
		return x.admit(r)
	case r.command == "ping":
		x.command = r.command
		_ = x.send(replyOK)
		return true
	case r.command == "stats":
		x.command = r.command
		return x.perform(&ops.Call{Operation: ops.Stats}, nil)
	case c == nil: // auth, too, which is unknown to a server without a token
		x.server.service.Events.Failed(badRequest)
		_ = x.send(replyError)
		return true
	}
	x.command = r.command
	return x.serveCommand(c, r)
}

// badRequest is the name of the error of malformed requests.
var badRequest = wire.StatusOf(wire.ErrMalformed).Name

// admit serves the first request, which must have the token.
func (x *exchange) admit(r request) bool {
	if r.command == "auth" {
		x.command = r.command
		x.admitted = x.mayGuess() && x.server.cfg.Tokens.Accept("Bearer "+strings.TrimSpace(r.args))
		if x.admitted {
			_ = x.send(replyOK)
			return true
		}
	}
	x.server.service.Events.Failed(wire.Unauthorized.Name)
	_ = x.send(replyAuth)
	select {
	case <-x.ctx.Done():
	case <-time.After(authPause):
	}
	return false
}

// mayGuess reports whether the client's rate allows it to send a token.
func (x *exchange) mayGuess() bool {
	may := x.server.cfg.Lending.MayGuess
	remote, err := netip.ParseAddrPort(x.remote)
	return may == nil || err != nil || may(remote.Addr())
}

func (x *exchange) serveCommand(c *command, r request) bool {
	params, err := c.parse(r)
	if err != nil {
		x.server.service.Events.Failed(badRequest)
		_ = x.send(replyError)
		return true
	}
	call := &ops.Call{Operation: c.Operation, Params: params}
	if !c.takes {
		return x.perform(call, nil)
	}
	if x.gone.Load() {
		return false
	}
	if c.waits && x.currentSession() == nil { // it has enqueued for nothing
		return x.refuse(kvslots.ErrNotEnqueued, call)
	}
	s, err := x.openSession()
	if err != nil {
		return x.refuse(err, &ops.Call{Operation: ops.CreateSession, Request: x.conn})
	}
	call.Session = s.id
	if call.Wait > 0 {
		x.input.wait(true)
		defer x.input.wait(false)
	}
	return x.perform(call, s)
}

// perform performs a call, of a session if that is not nil, and sends the reply.
func (x *exchange) perform(call *ops.Call, s *session) bool {
	call.Request, call.Arrived = x.conn, x.began
	err := x.server.service.Do(x.ctx, context.Background(), call, func() {
		if s != nil {
			s.use()
		}
		x.deliver(call)
	})
	if err == nil {
		return true
	}
	return x.refuse(err, call)
}

// deliver sends the reply to a call. It takes back a grant that the client will not learn of.
func (x *exchange) deliver(call *ops.Call) {
	lost := call.Granted() && x.gone.Load()
	if !lost && x.send(replyTo(call)) == nil || !call.Granted() { // a client that closes its sending side may still read
		return
	}
	if x.sent == nil {
		x.sent = context.Canceled
	}
	x.server.service.TakeBack(context.Background(), call)
}

// refuse sends the reply to an error, and reports whether the connection goes on.
func (x *exchange) refuse(err error, call *ops.Call) bool {
	call.Request = x.conn
	if x.gone.Load() {
		err = context.Canceled
	}
	name := x.server.service.RefuseCall(err, call).Name
	if x.gone.Load() {
		return false
	}
	reply := refusalOf(name)
	_ = x.send(reply)
	return reply != replyDraining && !errors.Is(err, kvslots.ErrSessionGone) // with its session, the connection has lost all that it held
}
