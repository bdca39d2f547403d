package kvslots

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

const (
	requestHeader = "Kvslots-Request" // names a borrow, for kvslots.cancel
	waitedHeader  = "Kvslots-Waited"  // milliseconds from a request's arrival to the start of its lease

	// answerTimeout bounds how long a gateway may take, beyond the wait that
	// was asked for. It gives up on the bucket before that.
	answerTimeout = 45 * time.Second
)

// Client asks the gateways on a NATS, by request and reply. It has the methods
// of a Store, for those who may not touch JetStream, and sees only what the
// answers say: Lease.Done tells the lease's end in time, not that somebody else
// returned it.
//
// All its methods may be called from several goroutines at once. Durations are
// rounded up to whole seconds.
type Client struct{ nc *nats.Conn }

// Dial makes a Client on a connection, which stays the caller's. It must be in
// the account where the gateways answer, and its inbox prefix one to which they
// do: _INBOX, _INBOX_<anything>, or what their flag --nats-reply-prefixes names. It
// must be allowed to publish to kvslots.> (at least to the subjects of the gateways,
// and below kvslots.confirm). Nothing is sent.
func Dial(nc *nats.Conn) *Client { return &Client{nc} }

// clientRequest is the body of any request: the pool's id, and
// what else the operation takes.
type clientRequest struct {
	ID    uuid.UUID
	Count *int
	Lease *uuid.UUID
	TTL   int64 // seconds; 0 leaves it out
	Wait  int64 // seconds; 0 leaves it out
}

// encode writes the body in the one way, and without reflection.
func (r clientRequest) encode() []byte {
	body := append(make([]byte, 0, 128), `{"id":"`...)
	body = append(body, r.ID.String()...)
	body = append(body, '"')
	if r.Count != nil {
		body = strconv.AppendInt(append(body, `,"count":`...), int64(*r.Count), 10)
	}
	if r.Lease != nil {
		body = append(body, `,"lease":"`...)
		body = append(body, r.Lease.String()...)
		body = append(body, '"')
	}
	if r.TTL != 0 {
		body = strconv.AppendInt(append(body, `,"ttl":`...), r.TTL, 10)
	}
	if r.Wait != 0 {
		body = strconv.AppendInt(append(body, `,"wait":`...), r.Wait, 10)
	}
	return append(body, '}')
}

// Register does what Store.Register does.
func (c *Client) Register(ctx context.Context, pool uuid.UUID, count int) (State, error) {
	return c.state(ctx, "register", clientRequest{ID: pool, Count: &count})
}

// Inspect does what Store.Inspect does.
func (c *Client) Inspect(ctx context.Context, pool uuid.UUID) (State, error) {
	return c.state(ctx, "inspect", clientRequest{ID: pool})
}

func (c *Client) state(ctx context.Context, operation string, request clientRequest) (State, error) {
	var answer struct {
		Count   int `json:"count"`
		InUse   int `json:"in_use"`
		Waiting int `json:"waiting"`
	}
	err := c.ask(ctx, operation, request, &answer)
	return State{Count: answer.Count, InUse: answer.InUse, Waiting: answer.Waiting}, err
}

// Delete does what Store.Delete does.
func (c *Client) Delete(ctx context.Context, pool uuid.UUID) error {
	return c.ask(ctx, "delete", clientRequest{ID: pool}, new(struct{}))
}

// Return does what Store.Return does.
func (c *Client) Return(ctx context.Context, pool, lease uuid.UUID) (bool, error) {
	ctx, cancel := returning(ctx)
	defer cancel()
	var answer struct {
		Returned bool `json:"returned"`
	}
	err := c.ask(ctx, "return", clientRequest{ID: pool, Lease: &lease}, &answer)
	return answer.Returned, err
}

// Borrow does what Store.Borrow does. If ctx ends first, the gateway is told, so
// that nothing stays held and nobody in line. A label does not reach the
// gateways: it is checked, and dropped.
func (c *Client) Borrow(ctx context.Context, pool uuid.UUID, ttl, wait time.Duration, opts ...BorrowOption) (*Lease, error) {
	if ttl < time.Second {
		return nil, &RangeError{"ttl", "at least 1 second"}
	}
	if wait < 0 {
		return nil, &RangeError{"wait", "at least 0 seconds"}
	}
	for _, opt := range opts {
		if err := opt(&borrowOptions{}); err != nil {
			return nil, err
		}
	}
	message := newRequest("borrow", clientRequest{ID: pool, TTL: inSeconds(ttl), Wait: inSeconds(wait)}.encode())
	name := c.nameGrant(message)
	sent := time.Now()
	answer, err := c.send(ctx, message, wait)
	var lease *Lease
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
		c.giveUp("return", clientRequest{ID: pool, Lease: &lease.id}.encode())
		return nil, err
	}
	return lease, nil
}

// Renew does what Store.Renew does.
func (c *Client) Renew(ctx context.Context, pool, lease uuid.UUID, ttl time.Duration) (*Lease, error) {
	if ttl < time.Second {
		return nil, &RangeError{"ttl", "at least 1 second"}
	}
	message := newRequest("renew", clientRequest{ID: pool, Lease: &lease, TTL: inSeconds(ttl)}.encode())
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
func (c *Client) lease(pool uuid.UUID, answer *nats.Msg, sent time.Time) (*Lease, error) {
	var body struct {
		Lease     uuid.UUID `json:"lease"`
		Position  int       `json:"position"`
		ExpiresIn int64     `json:"expires_in"`
		Fence     uint64    `json:"fence"`
	}
	if err := json.Unmarshal(answer.Data, &body); err != nil || body.Lease == uuid.Nil || body.ExpiresIn < 0 {
		return nil, errNotUnderstood
	}
	waited, err := strconv.ParseInt(answer.Header.Get(waitedHeader), 10, 64)
	if most := time.Since(sent).Milliseconds(); err != nil || waited < 0 {
		waited = 0
	} else {
		waited = min(waited, most)
	}
	ttl := time.Duration(min(body.ExpiresIn, int64(maxTTL/time.Second))) * time.Second
	return newLease(c, pool, body.Lease, body.Position, body.Fence, ttl, sent.Add(time.Duration(waited)*time.Millisecond)), nil
}

// maxTTL is beyond what any gateway grants, and no overflow.
const maxTTL = 366 * 24 * time.Hour

// errNotUnderstood is returned when somebody answers who is no gateway.
var errNotUnderstood = fmt.Errorf("%w: the answer was not understood", ErrUnavailable)

// ask sends a request and reads its answer.
func (c *Client) ask(ctx context.Context, operation string, request clientRequest, answer any) error {
	m, err := c.send(ctx, newRequest(operation, request.encode()), 0)
	if err != nil {
		return err
	}
	if json.Unmarshal(m.Data, answer) != nil {
		return errNotUnderstood
	}
	return nil
}

func newRequest(operation string, body []byte) *nats.Msg {
	return &nats.Msg{Subject: "kvslots." + operation, Data: body}
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
		return nil, fmt.Errorf("%w: no gateway is there", ErrUnavailable)
	}
	return nil, unavailable(err)
}

// answered is the error that an answer stands for.
func answered(m *nats.Msg) error {
	code := m.Header.Get(micro.ErrorCodeHeader)
	if code == "" {
		return nil
	}
	text := m.Header.Get(micro.ErrorHeader)
	switch status, _ := strconv.Atoi(code); {
	case status == http.StatusNotFound && text == ErrNotHeld.Error():
		return ErrNotHeld
	case status == http.StatusNotFound:
		return ErrNoPool
	case status == http.StatusConflict:
		return ErrNoSlot
	case status == http.StatusBadRequest:
		if field, allowed, ok := strings.Cut(text, " must be "); ok {
			return &RangeError{field, allowed}
		}
		return errors.New(text)
	}
	return fmt.Errorf("%w: %s", ErrUnavailable, text)
}

// cancel tells the gateways that nobody waits for a borrow any more. Whichever
// has it takes it out of the line, or takes the lease back.
func (c *Client) cancel(name string) {
	m := nats.NewMsg("kvslots.cancel")
	m.Header.Set(requestHeader, name)
	_ = c.nc.PublishMsg(m) // a closed connection cannot tell; the reply finds nobody, then
}

// giveUp returns what was granted and not confirmed, without waiting for an answer.
// The gateway that granted it does so itself, unless it has just ended; then another
// one gets this.
func (c *Client) giveUp(operation string, body []byte) {
	_ = c.nc.PublishMsg(newRequest(operation, body)) // if it is lost, the lease ends by its ttl
}

// inSeconds rounds up.
func inSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
