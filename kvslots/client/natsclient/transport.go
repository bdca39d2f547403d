package natsclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/client/internal/transport"
	"github.com/kvslots/kvslots/kvslots/subjects"
	"github.com/kvslots/kvslots/kvslots/wire"
)

type overNATS struct {
	connect func() (*nats.Conn, error) // makes nc, which close closes; nil: nc was given
	token   string                     // a secret; "" if there is none

	mu      sync.Mutex
	nc      *nats.Conn    // nil until connected
	attempt chan struct{} // closed when the attempt to connect has ended; nil: there is none
	failed  error         // of the last attempt
	closed  bool

	waiting map[context.Context]waiting // by their contexts
	changes chan nats.Status            // of the connection, while any wait
}

func (n *overNATS) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	if n.connect != nil && n.nc != nil {
		n.nc.Close()
	}
}

// connected returns the connection, which it makes if there is none. An attempt to connect goes on after
// the end of ctx, for the next request.
func (n *overNATS) connected(ctx context.Context) (*nats.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.nc != nil {
		return n.nc, nil
	}
	if n.attempt == nil {
		n.attempt = make(chan struct{})
		go n.try(n.attempt)
	}
	attempt := n.attempt
	n.mu.Unlock()
	select {
	case <-attempt:
	case <-ctx.Done():
	}
	n.mu.Lock()
	if n.nc == nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return n.nc, n.failed
}

func (n *overNATS) try(attempt chan struct{}) {
	nc, err := n.connect()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.nc, n.failed, n.attempt = nc, err, nil
	if n.closed && nc != nil {
		nc.Close()
	}
	close(attempt)
}

// publish sends a message that has no answer. It fails without a connection, where no grant can arrive.
func (n *overNATS) publish(m *nats.Msg) {
	n.mu.Lock()
	nc := n.nc
	n.mu.Unlock()
	if nc != nil {
		_ = nc.PublishMsg(m)
	}
}

func (n *overNATS) Ask(ctx context.Context, r transport.Request, read func(transport.Answer) error) error {
	m, name := message(r), ""
	if r.Operation != nil && n.token != "" {
		m.Header.Set(wire.AuthorizationHeader, "Bearer "+n.token)
	}
	if r.Undo != nil {
		name = n.nameGrant(m)
	}
	reply, err := n.send(ctx, m)
	if err == nil {
		err = read(transport.Answer{Body: reply.Data, Header: reply.Header})
	}
	if r.Undo == nil {
		return err
	}
	if reply == nil || errors.Is(err, client.ErrNotUnderstood) {
		// Something may have been granted, or may be yet.
		if r.Unknown != nil {
			*r.Unknown = append(*r.Unknown, name)
		} else {
			n.Cancel([]string{name})
		}
	}
	if err != nil {
		return err
	}
	if err := n.confirm(ctx, reply); err != nil {
		n.Cancel([]string{name})
		n.giveUp(r.Undo())
		return err
	}
	return nil
}

func message(r transport.Request) *nats.Msg {
	m := &nats.Msg{Subject: r.Subject}
	if r.Operation == nil {
		m.Data = r.Body.Encode()
	} else {
		m.Data = r.Operation.Data
	}
	if r.Operation != nil || r.Key != "" || r.Undo != nil {
		m.Header = nats.Header{}
	}
	if r.Key != "" {
		m.Header.Set(wire.RequestKeyHeader, r.Key)
	}
	return m
}

// send sends a request. It returns the reply with the error that it contains, or no
// reply and an error.
func (n *overNATS) send(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	nc, err := n.connected(ctx)
	if err != nil {
		return nil, err
	}
	ctx, stop := n.whileConnected(ctx, nc)
	defer stop()
	reply, err := nc.RequestMsgWithContext(ctx, m)
	switch {
	case err == nil:
		return reply, replyError(reply)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, nats.ErrConnectionClosed): // ctx may end only after this
		return nil, whyDisconnected(nc)
	case errors.Is(err, nats.ErrNoResponders):
		err = errors.New("no gateway is there")
	}
	return nil, &client.Unanswered{Err: fmt.Errorf("NATS: %w", err)}
}

// errDisconnected is the cause when there is no connection, or it is lost: the answer cannot arrive any more.
var errDisconnected = &client.Unanswered{Err: errors.New("NATS: not connected")}

// errConnectionClosed is the cause when the connection will not come back.
var errConnectionClosed = fmt.Errorf("%w: the connection to NATS", kvslots.ErrClosed)

func whyDisconnected(nc *nats.Conn) error {
	if nc.IsClosed() {
		return errConnectionClosed
	}
	return errDisconnected
}

type waiting struct {
	connection uint64 // how often the connection was made again before it
	end        context.CancelCauseFunc
}

// whileConnected returns a context that ends when the connection is lost, since a gateway
// that stops together with its NATS server never answers. If there is no connection the
// context has ended already: the connection would buffer a request, and send it much later.
// stop must be called.
func (n *overNATS) whileConnected(ctx context.Context, nc *nats.Conn) (connected context.Context, stop func()) {
	ctx, end := context.WithCancelCause(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.waiting) == 0 {
		n.waiting = map[context.Context]waiting{}
		n.changes = nc.StatusChanged(nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED)
		go n.watch(nc, n.changes)
	}
	n.waiting[ctx] = waiting{nc.Stats().Reconnects, end}
	if !nc.IsConnected() {
		end(whyDisconnected(nc))
	}
	return ctx, func() {
		end(nil)
		n.mu.Lock()
		defer n.mu.Unlock()
		if delete(n.waiting, ctx); len(n.waiting) == 0 {
			nc.RemoveStatusListener(n.changes)
		}
	}
}

// watch ends the requests whose connection is lost, as long as any wait: those that were sent since it was
// made again have another.
func (n *overNATS) watch(nc *nats.Conn, changes <-chan nats.Status) {
	for range changes {
		n.mu.Lock()
		for _, w := range n.waiting {
			if !nc.IsConnected() || nc.Stats().Reconnects != w.connection {
				w.end(whyDisconnected(nc))
			}
		}
		n.mu.Unlock()
	}
}

func replyError(reply *nats.Msg) error {
	code := reply.Header.Get(micro.ErrorCodeHeader)
	if code == "" {
		return nil
	}
	status, _ := strconv.Atoi(code)
	refused := wire.NewRefusal(status, reply.Header, reply.Data)
	if refused.Text == "" { // not an answer of a gateway, but of another micro service
		refused.Text = reply.Header.Get(micro.ErrorHeader)
	}
	return refused
}

// Cancel informs the gateways that requests were canceled. The gateway that serves one
// takes it out of the line, or takes back what it granted.
func (n *overNATS) Cancel(ids []string) bool {
	for _, id := range ids {
		n.publish(&nats.Msg{Subject: subjects.Cancel, Header: nats.Header{wire.RequestHeader: {id}}})
	}
	return true
}

// giveUp returns what was granted and not confirmed, without waiting for an answer. The
// gateway that granted it does so itself; if that gateway has just stopped, another one
// does it on this request.
func (n *overNATS) giveUp(undo transport.Request) {
	n.publish(message(undo)) // if the message is lost, the lease ends after its ttl
}

// confirmTimeout bounds the wait for the answer to a confirmation, which a gateway
// sends at once. Without an answer the client gives up the grant.
const confirmTimeout = 5 * time.Second

// nameGrant gives a request an id by which it can be canceled. It also promises that
// the client will confirm the grant, so that the gateway grants the slot without first
// checking that the client is alive. For that the client has to stay subscribed to its
// inbox until the confirmation is answered, which a connection with
// nats.UseOldRequestStyle does not.
func (n *overNATS) nameGrant(m *nats.Msg) (name string) {
	name = uuid.NewString()
	m.Header[wire.RequestHeader] = []string{name}
	n.mu.Lock()
	nc := n.nc
	n.mu.Unlock()
	if nc != nil && !nc.Opts.UseOldRequestStyle {
		m.Header.Set(wire.ConfirmHeader, "1")
	}
	return name
}

// confirm confirms a grant, if the gateway asks for it. The client holds the grant only
// after confirm has returned nil: the gateway takes back a grant that was not confirmed
// in time, and then refuses the confirmation. The errors are client.ErrUnconfirmed,
// client.ErrNotUnderstood and the cause of ctx. After each of them the caller must give up the
// grant.
func (n *overNATS) confirm(ctx context.Context, grant *nats.Msg) error {
	if grant.Header.Get(wire.ConfirmHeader) == "" {
		return nil
	}
	if !strings.HasPrefix(grant.Reply, subjects.Confirm) && !strings.HasPrefix(grant.Reply, subjects.Import+".") {
		return client.ErrNotUnderstood
	}
	within, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	_, err := n.send(within, &nats.Msg{Subject: grant.Reply})
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return client.ErrUnconfirmed
	}
	return nil
}

// Events returns errors.ErrUnsupported: gateways publish events over NATS only if they are told to.
func (n *overNATS) Events(context.Context, string, uint64) (io.ReadCloser, error) {
	return nil, errors.ErrUnsupported
}
