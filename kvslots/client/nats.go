package client

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/subjects"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// natsTransport sends requests over NATS, to any gateway.
type natsTransport struct {
	nc      *nats.Conn
	dialled bool   // made by Dial, and closed by close
	token   string // a secret; "" if there is none
}

func (n *natsTransport) close() {
	if n.dialled {
		n.nc.Close()
	}
}

func (n *natsTransport) ask(ctx context.Context, r request, read func(answer) error) error {
	m, name := r.natsMessage(), ""
	if r.operation != nil && n.token != "" {
		m.Header.Set(wire.AuthorizationHeader, "Bearer "+n.token)
	}
	if r.undo != nil {
		name = n.nameGrant(m)
	}
	reply, err := n.send(ctx, m, r)
	if err == nil {
		err = read(answer{reply.Data, reply.Header})
	}
	if r.undo == nil {
		return err
	}
	if reply == nil || errors.Is(err, ErrNotUnderstood) {
		// Something may have been granted, or may be yet.
		if r.unknown != nil {
			*r.unknown = append(*r.unknown, name)
		} else {
			n.cancel([]string{name})
		}
	}
	if err != nil {
		return err
	}
	if err := n.confirm(ctx, reply); err != nil {
		n.cancel([]string{name})
		n.giveUp(r.undo())
		return err
	}
	return nil
}

func (r request) natsMessage() *nats.Msg {
	m := &nats.Msg{Subject: r.Subject}
	if r.operation == nil {
		m.Data = r.body.Encode()
	} else {
		m.Data = encode(r.operation.fields)
	}
	if r.operation != nil || r.key != "" || r.undo != nil {
		m.Header = nats.Header{}
	}
	if r.key != "" {
		m.Header.Set(wire.RequestKeyHeader, r.key)
	}
	return m
}

// send sends a request. It returns the reply with the error that it contains, or no
// reply and an error.
func (n *natsTransport) send(ctx context.Context, m *nats.Msg, r request) (*nats.Msg, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := withAnswerTimeout(ctx, r.wait)
	defer cancel()
	reply, err := n.nc.RequestMsgWithContext(ctx, m)
	switch {
	case err == nil:
		return reply, replyError(reply)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, nats.ErrNoResponders):
		err = errors.New("no gateway is there")
	}
	return nil, &Unanswered{fmt.Errorf("NATS: %w", err)}
}

// replyError returns the error that a reply contains, or nil.
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

// cancel informs the gateways that requests were canceled. The gateway that serves one
// takes it out of the line, or takes back what it granted.
func (n *natsTransport) cancel(ids []string) bool {
	for _, id := range ids {
		m := &nats.Msg{Subject: subjects.Cancel, Header: nats.Header{wire.RequestHeader: {id}}}
		_ = n.nc.PublishMsg(m) // fails on a closed connection, where no grant can arrive
	}
	return true
}

// giveUp returns what was granted and not confirmed, without waiting for an answer. The
// gateway that granted it does so itself; if that gateway has just stopped, another one
// does it on this request.
func (n *natsTransport) giveUp(undo request) {
	_ = n.nc.PublishMsg(undo.natsMessage()) // if the message is lost, the lease ends after its ttl
}

// confirmTimeout bounds the wait for the answer to a confirmation, which a gateway
// sends at once. Without an answer the client gives up the grant.
const confirmTimeout = 5 * time.Second

// nameGrant gives a request an id by which it can be canceled. It also promises that
// the client will confirm the grant, so that the gateway grants the slot without first
// checking that the client is alive. For that the client has to stay subscribed to its
// inbox until the confirmation is answered, which a connection with
// nats.UseOldRequestStyle does not.
func (n *natsTransport) nameGrant(m *nats.Msg) (name string) {
	name = uuid.NewString()
	m.Header[wire.RequestHeader] = []string{name}
	if !n.nc.Opts.UseOldRequestStyle {
		m.Header.Set(wire.ConfirmHeader, "1")
	}
	return name
}

// ErrUnconfirmed is returned when a grant could not be confirmed, and the client has given it
// up. Another request for it must have another request key. It wraps kvslots.ErrUnavailable.
var ErrUnconfirmed = fmt.Errorf("%w: the grant could not be confirmed", kvslots.ErrUnavailable)

// confirm confirms a grant, if the gateway asks for it. The client holds the grant only
// after confirm has returned nil: the gateway takes back a grant that was not confirmed
// in time, and then refuses the confirmation. The errors are ErrUnconfirmed,
// ErrNotUnderstood and the cause of ctx. After each of them the caller must give up the
// grant.
func (n *natsTransport) confirm(ctx context.Context, grant *nats.Msg) error {
	if grant.Header.Get(wire.ConfirmHeader) == "" {
		return nil
	}
	if !strings.HasPrefix(grant.Reply, subjects.Confirm) && !strings.HasPrefix(grant.Reply, subjects.Import+".") {
		return ErrNotUnderstood
	}
	within, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	_, err := n.send(within, &nats.Msg{Subject: grant.Reply}, request{})
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return ErrUnconfirmed
	}
	return nil
}
