package natsclient

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

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

	stores   transport.Stores // of the servers to which nc has been connected
	requests *requests        // on nc, when the first was sent
}

func (n *overNATS) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	if n.connect != nil && n.nc != nil {
		n.nc.Close()
	} else if n.requests != nil {
		n.requests.close()
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
	switch cause := context.Cause(ctx); {
	case n.nc == nil && errors.Is(cause, client.ErrAnswerTimeout):
		return nil, errNoConnection
	case n.nc == nil && cause != nil:
		return nil, cause
	}
	return n.nc, n.failed
}

func (n *overNATS) requestsOn(nc *nats.Conn) (*requests, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, errConnectionClosed
	}
	var err error
	if n.requests == nil {
		n.requests, err = newRequests(nc)
	}
	return n.requests, err
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
	if r.Operator != nil && n.token != "" {
		m.Header.Set(wire.AuthorizationHeader, "Bearer "+n.token)
	}
	if r.Undo != nil {
		name = nameGrant(m)
	}
	reply, err := n.send(ctx, m)
	if err == nil {
		err = read(transport.Answer{Body: reply.Data, Header: reply.Header})
	}
	two := n.see(reply)
	if r.Undo == nil {
		return cmp.Or(two, err)
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
		return cmp.Or(two, err)
	}
	if two == nil {
		err = n.confirm(ctx, reply)
	}
	if err = cmp.Or(two, err); err != nil {
		n.Cancel([]string{name})
		n.giveUp(r.Undo())
		return err
	}
	return nil
}

func (n *overNATS) see(reply *nats.Msg) error {
	if reply == nil {
		return nil
	}
	n.mu.Lock()
	at := n.nc.ConnectedUrlRedacted()
	n.mu.Unlock()
	return n.stores.See(at, reply.Header.Get(wire.StoreHeader))
}

func message(r transport.Request) *nats.Msg {
	m := &nats.Msg{Subject: r.Subject, Data: r.Message(&r.Params)}
	if r.Operator != nil || r.RequestKey != "" || r.Undo != nil {
		m.Header = nats.Header{}
	}
	if r.RequestKey != "" {
		m.Header.Set(wire.RequestKeyHeader, r.RequestKey)
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
	on, err := n.requestsOn(nc)
	if err != nil {
		return nil, err
	}
	reply, err := on.ask(ctx, m)
	if err != nil {
		return nil, err
	}
	return reply, replyError(reply)
}

// errNoConnection is returned when no connection was made in the time for an answer.
var errNoConnection = &client.Unanswered{Err: errors.New("NATS: no connection in time")}

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
// checking that the client is alive.
func nameGrant(m *nats.Msg) (name string) {
	name = rand.Text()
	m.Header[wire.RequestHeader] = []string{name}
	m.Header[wire.ConfirmHeader] = []string{"1"}
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
