package kvslots

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// sessionErrors are our errors by the codes that gateways have for them
// (dflockd, "Error responses").
var sessionErrors = map[string]error{
	"session_gone":        ErrSessionGone,
	"limit_mismatch":      ErrLimitMismatch,
	"already_enqueued":    ErrAlreadyEnqueued,
	"not_enqueued":        ErrNotEnqueued,
	"lease_expired":       ErrLeaseExpired,
	"not_held":            ErrNotHeld,
	"max_locks":           ErrMaxLocks,
	"max_waiters":         ErrMaxWaiters,
	"max_sessions":        ErrMaxSessions,
	"max_sessions_per_ip": ErrMaxSessionsPerOrigin,
}

// sessionRequest is the body of any request about a session.
type sessionRequest struct {
	Session string `json:"session,omitempty"`
	Key     string `json:"key,omitempty"`
	Limit   int    `json:"limit,omitempty"`
	Token   string `json:"token,omitempty"`
	TTL     int64  `json:"lease_ttl_s,omitempty"`       // seconds
	Acquire *int64 `json:"acquire_timeout_s,omitempty"` // seconds
	Wait    *int64 `json:"timeout_s,omitempty"`         // seconds
}

// CreateSession creates a session like Store.CreateSession. The gateway says for
// how long it may be idle: use it, or Ping, well before that is over.
func (c *Client) CreateSession(ctx context.Context) (id string, idle time.Duration, err error) {
	var answer struct {
		ID   string `json:"session_id"`
		Idle int64  `json:"idle_timeout_s"`
	}
	err = c.session(ctx, "session.create", sessionRequest{}, &answer)
	return answer.ID, time.Duration(answer.Idle) * time.Second, err
}

// Ping does what Store.Ping does.
func (c *Client) Ping(ctx context.Context, session string) error {
	return c.session(ctx, "session.ping", sessionRequest{Session: session}, nil)
}

// EndSession does what Store.EndSession does.
func (c *Client) EndSession(ctx context.Context, session string) error {
	ctx, cancel := returning(ctx)
	defer cancel()
	return c.session(ctx, "session.delete", sessionRequest{Session: session}, nil)
}

// Acquire does what Store.Acquire does. If ctx ends first, the gateway is told.
func (c *Client) Acquire(ctx context.Context, session string, r Resource, ttl, wait time.Duration) (Grant, error) {
	if wait < 0 {
		return Grant{}, &RangeError{"wait", "at least 0 seconds"}
	}
	request, err := lendRequest(session, r, ttl)
	if err != nil {
		return Grant{}, err
	}
	seconds := inSeconds(wait)
	request.Acquire = &seconds
	return c.lend(ctx, "acquire", r, request, wait)
}

// Enqueue does what Store.Enqueue does. A session whose ctx ends meanwhile may
// have joined the line.
func (c *Client) Enqueue(ctx context.Context, session string, r Resource, ttl time.Duration) (g Grant, acquired bool, err error) {
	request, err := lendRequest(session, r, ttl)
	if err != nil {
		return Grant{}, false, err
	}
	g, err = c.lend(ctx, "enqueue", r, request, 0)
	return g, g.Token != "", err
}

// Wait does what Store.Wait does. If ctx ends first, the gateway is told.
func (c *Client) Wait(ctx context.Context, session string, r Resource, wait time.Duration) (Grant, error) {
	if wait < 0 {
		return Grant{}, &RangeError{"wait", "at least 0 seconds"}
	}
	if err := r.check(false); err != nil {
		return Grant{}, err
	}
	seconds := inSeconds(wait)
	return c.lend(ctx, "wait", r, sessionRequest{Session: session, Key: r.Key, Wait: &seconds}, wait)
}

// Release does what Store.Release does.
func (c *Client) Release(ctx context.Context, session string, r Resource, token string) error {
	ctx, cancel := returning(ctx)
	defer cancel()
	if err := r.check(false); err != nil {
		return err
	}
	return c.session(ctx, subjectOf(r, "release"), sessionRequest{Session: session, Key: r.Key, Token: token}, nil)
}

// Extend does what Store.Extend does.
func (c *Client) Extend(ctx context.Context, session string, r Resource, token string, ttl time.Duration) (remaining time.Duration, err error) {
	if ttl < time.Second {
		return 0, &RangeError{"ttl", "at least 1 second"}
	}
	if err := r.check(false); err != nil {
		return 0, err
	}
	var answer struct {
		Remaining int64 `json:"remaining_s"`
	}
	request := sessionRequest{Session: session, Key: r.Key, Token: token, TTL: inSeconds(ttl)}
	err = c.session(ctx, subjectOf(r, "renew"), request, &answer)
	return time.Duration(answer.Remaining) * time.Second, err
}

func subjectOf(r Resource, operation string) string {
	if r.Kind == KindLock {
		return "lock." + operation
	}
	return "semaphore." + operation
}

func lendRequest(session string, r Resource, ttl time.Duration) (sessionRequest, error) {
	if ttl < time.Second {
		return sessionRequest{}, &RangeError{"ttl", "at least 1 second"}
	}
	if err := r.check(true); err != nil {
		return sessionRequest{}, err
	}
	request := sessionRequest{Session: session, Key: r.Key, TTL: inSeconds(ttl)}
	if r.Kind == KindSemaphore {
		request.Limit = r.Limit
	}
	return request, nil
}

// lend asks for a grant, which may take as long as wait. A gateway that answers
// nobody takes back what it granted.
func (c *Client) lend(ctx context.Context, operation string, r Resource, request sessionRequest, wait time.Duration) (Grant, error) {
	var answer struct {
		Status string `json:"status"`
		Token  string `json:"token"`
		TTL    int64  `json:"lease_ttl_s"`
	}
	body, err := json.Marshal(request)
	if err != nil {
		return Grant{}, err
	}
	m := newRequest(subjectOf(r, operation), body)
	name := c.nameGrant(m)
	got, err := c.sessionAnswer(ctx, m, name, wait, &answer)
	if err != nil {
		return Grant{}, err
	}
	switch answer.Status {
	case "timeout":
		return Grant{}, ErrNoSlot
	case "queued":
		return Grant{}, nil
	}
	if !isHex(answer.Token) {
		return Grant{}, errNotUnderstood
	}
	fence, err := strconv.ParseUint(answer.Token[:len(answer.Token)/2], 16, 64)
	if err != nil {
		return Grant{}, errNotUnderstood
	}
	if err := c.confirm(ctx, got); err != nil {
		c.cancel(name)
		body, _ := json.Marshal(sessionRequest{Session: request.Session, Key: r.Key, Token: answer.Token}) // as above
		c.giveUp(subjectOf(r, "release"), body)
		return Grant{}, err
	}
	return Grant{Token: answer.Token, Fence: fence, TTL: time.Duration(answer.TTL) * time.Second}, nil
}

// session sends a request about a session and reads its answer.
func (c *Client) session(ctx context.Context, operation string, request sessionRequest, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	_, err = c.sessionAnswer(ctx, newRequest(operation, body), "", 0, answer)
	return err
}

// sessionAnswer sends a request about a session and reads its answer. A request that
// has a name is cancelled unless the answer was understood.
func (c *Client) sessionAnswer(ctx context.Context, m *nats.Msg, name string, wait time.Duration, answer any) (*nats.Msg, error) {
	got, err := c.send(ctx, m, wait)
	switch {
	case got == nil: // a grant may be given to us yet
	case got.Header.Get(micro.ErrorCodeHeader) != "":
		return got, sessionError(got)
	case answer != nil && json.Unmarshal(got.Data, answer) != nil:
		err = errNotUnderstood
	default:
		return got, nil
	}
	if name != "" {
		c.cancel(name)
	}
	return got, err
}

// sessionError is the error that an answer stands for.
func sessionError(m *nats.Msg) error {
	var body struct {
		Code   string `json:"error"`
		Detail string `json:"detail"`
	}
	if json.Unmarshal(m.Data, &body) != nil {
		return errNotUnderstood
	}
	if known := sessionErrors[body.Code]; known != nil {
		return known
	}
	if body.Code == "bad_request" {
		return fmt.Errorf("bad request: %s", body.Detail)
	}
	return fmt.Errorf("%w: %s", ErrUnavailable, body.Code)
}
