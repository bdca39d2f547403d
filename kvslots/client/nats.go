package client

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/kvslots/wire/subjects"
)

// overNATS asks whichever gateway takes the request.
type overNATS struct {
	nc      *nats.Conn
	dialled bool // by Dial, and closed by close
}

func (n *overNATS) close() {
	if n.dialled {
		n.nc.Close()
	}
}

func (n *overNATS) ask(ctx context.Context, r request, read func(answer) error) error {
	m, name := r.message(), ""
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
		n.cancel(name) // something may be granted to us yet, or have been
	}
	if err != nil {
		return err
	}
	if err := n.confirm(ctx, reply); err != nil {
		n.cancel(name)
		n.giveUp(r.undo())
		return err
	}
	return nil
}

func (r request) message() *nats.Msg {
	body := r.session.Encode
	if r.pool.ID != nil {
		body = r.pool.Encode
	}
	return &nats.Msg{Subject: r.subject, Data: body()}
}

// send returns the reply, with the error that it stands for; no reply when none
// came.
func (n *overNATS) send(ctx context.Context, m *nats.Msg, r request) (*nats.Msg, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := bound(ctx, r.wait)
	defer cancel()
	reply, err := n.nc.RequestMsgWithContext(ctx, m)
	switch {
	case err == nil:
		return reply, refusalIn(reply)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, nats.ErrNoResponders):
		err = errors.New("no gateway is there")
	}
	return nil, &Unanswered{fmt.Errorf("NATS: %w", err)}
}

// refusalIn is the error that a reply stands for.
func refusalIn(reply *nats.Msg) error {
	code := reply.Header.Get(micro.ErrorCodeHeader)
	if code == "" {
		return nil
	}
	status, _ := strconv.Atoi(code)
	refused := newRefusal(status, reply.Header, reply.Data)
	if refused.Text == "" { // not one of ours, but of a micro service
		refused.Text = reply.Header.Get(micro.ErrorHeader)
	}
	return refused
}

// cancel tells the gateways that a request has no requester any more. The gateway
// that has it takes it out of the line, or takes back what it granted.
func (n *overNATS) cancel(name string) {
	m := &nats.Msg{Subject: subjects.Cancel, Header: nats.Header{wire.RequestHeader: {name}}}
	_ = n.nc.PublishMsg(m) // on a closed connection it fails; then the grant's reply has no subscriber
}

// giveUp gives back what was granted and not confirmed, without waiting for an
// answer. The gateway that granted it does so itself, unless it has just ended; then
// another one gets this.
func (n *overNATS) giveUp(undo request) {
	_ = n.nc.PublishMsg(undo.message()) // if it is lost, the lease ends by its ttl
}
