// Package client asks gateways over NATS, by request and reply. Its Client has the
// methods of a kvslots.Store, for services that may not touch JetStream.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/kvslots/wire/subjects"
)

// answerTimeout bounds how long a gateway may take, beyond the wait that was
// asked for. It gives up on the bucket before that.
const answerTimeout = 45 * time.Second

// Client asks the gateways on a NATS. It has the methods of a kvslots.Store, and
// sees only what the answers say: Lease.Done tells the lease's end in time, not that somebody else
// returned it.
//
// All its methods may be called from several goroutines at once. Durations are
// rounded up to whole seconds. An error that a gateway has answered with is a
// *wire.Refusal, in which errors.Is finds the errors of package kvslots.
type Client struct{ nc *nats.Conn }

// Dial makes a Client on a connection, which stays the caller's. It must be in
// the account where the gateways answer, and its inbox prefix one to which they
// do: _INBOX, _INBOX_<anything>, or what their flag --nats-reply-prefixes names. It
// must be allowed to publish to kvslots.> (at least to the subjects of the gateways,
// and below kvslots.confirm). Nothing is sent.
func Dial(nc *nats.Conn) *Client { return &Client{nc} }

// Register does what Store.Register does.
func (c *Client) Register(ctx context.Context, pool uuid.UUID, count int) (kvslots.State, error) {
	return c.state(ctx, subjects.PoolRegister, wire.PoolRequest{ID: &pool, Count: &count})
}

// Inspect does what Store.Inspect does.
func (c *Client) Inspect(ctx context.Context, pool uuid.UUID) (kvslots.State, error) {
	return c.state(ctx, subjects.PoolInspect, wire.PoolRequest{ID: &pool})
}

func (c *Client) state(ctx context.Context, subject string, request wire.PoolRequest) (kvslots.State, error) {
	var answer wire.Pool
	err := c.ask(ctx, subject, request.Encode(), &answer)
	return kvslots.State{Count: answer.Count, InUse: answer.InUse, Waiting: answer.Waiting}, err
}

// Delete does what Store.Delete does.
func (c *Client) Delete(ctx context.Context, pool uuid.UUID) error {
	return c.ask(ctx, subjects.PoolDelete, wire.PoolRequest{ID: &pool}.Encode(), new(wire.Deleted))
}

// Return does what Store.Return does.
func (c *Client) Return(ctx context.Context, pool, lease uuid.UUID) (bool, error) {
	ctx, cancel := kvslots.Returning(ctx)
	defer cancel()
	var answer wire.Returned
	err := c.ask(ctx, subjects.PoolReturn, wire.PoolRequest{ID: &pool, Lease: &lease}.Encode(), &answer)
	return answer.Returned, err
}

// Borrow does what Store.Borrow does. If ctx ends first, the gateway is told, so
// that nothing stays held and nobody in line. A label does not reach the
// gateways: it is checked, and dropped.
func (c *Client) Borrow(ctx context.Context, pool uuid.UUID, ttl, wait time.Duration, opts ...kvslots.BorrowOption) (*kvslots.Lease, error) {
	if err := kvslots.CheckTimes(ttl, wait); err != nil {
		return nil, err
	}
	for _, opt := range opts {
		if err := opt(&kvslots.BorrowOptions{}); err != nil {
			return nil, err
		}
	}
	message := &nats.Msg{Subject: subjects.PoolBorrow, Data: wire.PoolRequest{ID: &pool, TTL: wire.Seconds(ttl), Wait: wire.Seconds(wait)}.Encode()}
	name := c.nameGrant(message)
	sent := time.Now()
	answer, err := c.send(ctx, message, wait)
	var lease *kvslots.Lease
	if err == nil {
		lease, err = c.lease(pool, answer, sent)
	}
	if answer == nil || errors.Is(err, errNotUnderstood) {
		c.cancel(name) // a lease may be given to us yet, or have been
	}
	if err != nil {
		return nil, err
	}
	if err := c.confirm(ctx, answer); err != nil {
		c.cancel(name)
		id := lease.ID()
		c.giveUp(subjects.PoolReturn, wire.PoolRequest{ID: &pool, Lease: &id}.Encode())
		return nil, err
	}
	return lease, nil
}

// Renew does what Store.Renew does.
func (c *Client) Renew(ctx context.Context, pool, lease uuid.UUID, ttl time.Duration) (*kvslots.Lease, error) {
	if err := kvslots.CheckTimes(ttl, 0); err != nil {
		return nil, err
	}
	message := &nats.Msg{Subject: subjects.PoolRenew, Data: wire.PoolRequest{ID: &pool, Lease: &lease, TTL: wire.Seconds(ttl)}.Encode()}
	sent := time.Now()
	answer, err := c.send(ctx, message, 0)
	if err != nil {
		return nil, err
	}
	return c.lease(pool, answer, sent)
}

// lease reads the answer to a borrow or a renewal. Its time is counted from
// when the request was sent, plus what the gateway says that it then waited:
// never later than the gateway counts it from, however long the way.
func (c *Client) lease(pool uuid.UUID, answer *nats.Msg, sent time.Time) (*kvslots.Lease, error) {
	var body wire.Lease
	if err := json.Unmarshal(answer.Data, &body); err != nil || body.Lease == uuid.Nil || body.ExpiresIn < 0 {
		return nil, errNotUnderstood
	}
	waited, err := strconv.ParseInt(answer.Header.Get(wire.WaitedHeader), 10, 64)
	if most := time.Since(sent).Milliseconds(); err != nil || waited < 0 {
		waited = 0
	} else {
		waited = min(waited, most)
	}
	ttl := time.Duration(min(body.ExpiresIn, int64(maxTTL/time.Second))) * time.Second
	return kvslots.NewLease(c, pool, body.Lease, body.Position, body.Fence, ttl, sent.Add(time.Duration(waited)*time.Millisecond)), nil
}

// maxTTL is beyond what any gateway grants, and no overflow.
const maxTTL = 366 * 24 * time.Hour

// errNotUnderstood is returned when somebody answers who is no gateway.
var errNotUnderstood = fmt.Errorf("%w: the answer was not understood", kvslots.ErrUnavailable)

// ask sends a request and reads its answer.
func (c *Client) ask(ctx context.Context, subject string, body []byte, answer any) error {
	m, err := c.send(ctx, &nats.Msg{Subject: subject, Data: body}, 0)
	if err != nil {
		return err
	}
	if json.Unmarshal(m.Data, answer) != nil {
		return errNotUnderstood
	}
	return nil
}

// send gives the answer, with the error that it stands for; no answer when
// none came.
func (c *Client) send(ctx context.Context, m *nats.Msg, wait time.Duration) (*nats.Msg, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	bounded := ctx
	if ends, ok := ctx.Deadline(); !ok || time.Until(ends) > wait+answerTimeout {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, wait+answerTimeout)
		defer cancel()
	}
	answer, err := c.nc.RequestMsgWithContext(bounded, m)
	switch {
	case err == nil:
		return answer, answered(answer)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, nats.ErrNoResponders):
		return nil, fmt.Errorf("%w: no gateway is there", kvslots.ErrUnavailable)
	}
	return nil, fmt.Errorf("%w: %w", kvslots.ErrUnavailable, err)
}

// answered is the error that an answer stands for.
func answered(m *nats.Msg) error {
	code := m.Header.Get(micro.ErrorCodeHeader)
	if code == "" {
		return nil
	}
	status, _ := strconv.Atoi(code)
	refused := wire.NewRefusal(status, m.Header.Get(wire.ErrorHeader), m.Data)
	if refused.Text == "" { // not one of ours, but of a micro service
		refused.Text = m.Header.Get(micro.ErrorHeader)
	}
	return refused
}

// cancel tells the gateways that nobody waits for a borrow any more. Whichever
// has it takes it out of the line, or takes the lease back.
func (c *Client) cancel(name string) {
	m := &nats.Msg{Subject: subjects.Cancel, Header: nats.Header{wire.RequestHeader: {name}}}
	_ = c.nc.PublishMsg(m) // a closed connection cannot tell; the reply finds nobody, then
}

// giveUp returns what was granted and not confirmed, without waiting for an answer.
// The gateway that granted it does so itself, unless it has just ended; then another
// one gets this.
func (c *Client) giveUp(subject string, body []byte) {
	_ = c.nc.Publish(subject, body) // if it is lost, the lease ends by its ttl
}
