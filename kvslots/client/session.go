package client

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/kvslots/wire/subjects"
)

// CreateSession creates a session like Store.CreateSession. The gateway says for
// how long it may be idle: use it, or Ping, well before that is over.
func (c *Client) CreateSession(ctx context.Context) (id string, idle time.Duration, err error) {
	var answer wire.Session
	err = c.ask(ctx, subjects.SessionCreate, wire.SessionRequest{}.Encode(), &answer)
	return answer.ID, time.Duration(answer.IdleTimeout) * time.Second, err
}

// Ping does what Store.Ping does.
func (c *Client) Ping(ctx context.Context, session string) error {
	return c.ask(ctx, subjects.SessionPing, wire.SessionRequest{Session: session}.Encode(), new(wire.Nothing))
}

// EndSession does what Store.EndSession does.
func (c *Client) EndSession(ctx context.Context, session string) error {
	ctx, cancel := kvslots.Returning(ctx)
	defer cancel()
	return c.ask(ctx, subjects.SessionDelete, wire.SessionRequest{Session: session}.Encode(), new(wire.Nothing))
}

// Acquire does what Store.Acquire does. If ctx ends first, the gateway is told.
func (c *Client) Acquire(ctx context.Context, session string, r kvslots.Resource, ttl, wait time.Duration) (kvslots.Grant, error) {
	request, err := lendRequest(session, r, ttl, wait)
	if err != nil {
		return kvslots.Grant{}, err
	}
	seconds := wire.Seconds(wait)
	request.Acquire = &seconds
	return c.lend(ctx, subjects.Acquire, r, request, wait)
}

// Enqueue does what Store.Enqueue does. A session whose ctx ends meanwhile may
// have joined the line.
func (c *Client) Enqueue(ctx context.Context, session string, r kvslots.Resource, ttl time.Duration) (g kvslots.Grant, acquired bool, err error) {
	request, err := lendRequest(session, r, ttl, 0)
	if err != nil {
		return kvslots.Grant{}, false, err
	}
	g, err = c.lend(ctx, subjects.Enqueue, r, request, 0)
	return g, g.Token != "", err
}

// Wait does what Store.Wait does. If ctx ends first, the gateway is told.
func (c *Client) Wait(ctx context.Context, session string, r kvslots.Resource, wait time.Duration) (kvslots.Grant, error) {
	if err := kvslots.CheckTimes(time.Second, wait); err != nil {
		return kvslots.Grant{}, err
	}
	if err := r.Check(false); err != nil {
		return kvslots.Grant{}, err
	}
	seconds := wire.Seconds(wait)
	return c.lend(ctx, subjects.Wait, r, wire.SessionRequest{Session: session, Key: r.Key, Wait: &seconds}, wait)
}

// Release does what Store.Release does.
func (c *Client) Release(ctx context.Context, session string, r kvslots.Resource, token string) error {
	ctx, cancel := kvslots.Returning(ctx)
	defer cancel()
	if err := r.Check(false); err != nil {
		return err
	}
	return c.ask(ctx, subjectOf(r, subjects.Release), wire.SessionRequest{Session: session, Key: r.Key, Token: token}.Encode(), new(wire.Nothing))
}

// Extend does what Store.Extend does.
func (c *Client) Extend(ctx context.Context, session string, r kvslots.Resource, token string, ttl time.Duration) (remaining time.Duration, err error) {
	if err := kvslots.CheckTimes(ttl, 0); err != nil {
		return 0, err
	}
	if err := r.Check(false); err != nil {
		return 0, err
	}
	var answer wire.Renewed
	request := wire.SessionRequest{Session: session, Key: r.Key, Token: token, TTL: wire.Seconds(ttl)}
	err = c.ask(ctx, subjectOf(r, subjects.Renew), request.Encode(), &answer)
	return time.Duration(answer.Remaining) * time.Second, err
}

func subjectOf(r kvslots.Resource, operation string) string {
	if r.Kind == kvslots.KindLock {
		return subjects.Of(subjects.Lock, operation)
	}
	return subjects.Of(subjects.Semaphore, operation)
}

func lendRequest(session string, r kvslots.Resource, ttl, wait time.Duration) (wire.SessionRequest, error) {
	if err := kvslots.CheckTimes(ttl, wait); err != nil {
		return wire.SessionRequest{}, err
	}
	if err := r.Check(true); err != nil {
		return wire.SessionRequest{}, err
	}
	request := wire.SessionRequest{Session: session, Key: r.Key, TTL: wire.Seconds(ttl)}
	if r.Kind == kvslots.KindSemaphore {
		request.Limit = r.Limit
	}
	return request, nil
}

// lend asks for a grant, which may take as long as wait. A gateway that answers
// nobody takes back what it granted.
func (c *Client) lend(ctx context.Context, operation string, r kvslots.Resource, request wire.SessionRequest, wait time.Duration) (kvslots.Grant, error) {
	m := &nats.Msg{Subject: subjectOf(r, operation), Data: request.Encode()}
	name := c.nameGrant(m)
	answer, err := c.send(ctx, m, wait)
	var grant kvslots.Grant
	if err == nil {
		grant, err = readGrant(answer)
	}
	if answer == nil || errors.Is(err, errNotUnderstood) {
		c.cancel(name) // a grant may be given to us yet, or have been
	}
	if err != nil || grant.Token == "" {
		return kvslots.Grant{}, err
	}
	if err := c.confirm(ctx, answer); err != nil {
		c.cancel(name)
		c.giveUp(subjectOf(r, subjects.Release), wire.SessionRequest{Session: request.Session, Key: r.Key, Token: grant.Token}.Encode())
		return kvslots.Grant{}, err
	}
	return grant, nil
}

// readGrant reads the answer to who asked for a grant: it has no token while the
// session is queued.
func readGrant(m *nats.Msg) (kvslots.Grant, error) {
	var answer wire.Grant
	if json.Unmarshal(m.Data, &answer) != nil {
		return kvslots.Grant{}, errNotUnderstood
	}
	switch answer.Status {
	case wire.GrantTimeout:
		return kvslots.Grant{}, kvslots.ErrNoSlot
	case wire.GrantQueued:
		return kvslots.Grant{}, nil
	}
	if !wire.IsToken(answer.Token) {
		return kvslots.Grant{}, errNotUnderstood
	}
	fence, err := strconv.ParseUint(answer.Token[:len(answer.Token)/2], 16, 64)
	return kvslots.Grant{Token: answer.Token, Fence: fence, TTL: time.Duration(answer.LeaseTTL) * time.Second}, err
}
