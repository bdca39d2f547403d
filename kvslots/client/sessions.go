package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/clock"
	"github.com/kvslots/kvslots/kvslots/subjects"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// CreateSession is like Store.CreateSession. A gateway may grant a shorter idle time than WithIdle asks for, and
// has its own without it. Its session lives for twice that time, but only the first half of that is sure
// if the gateway dies.
func (c *Client) CreateSession(ctx context.Context, opts ...kvslots.Option) (id string, idle time.Duration, err error) {
	var o kvslots.Options
	if err := o.Apply(opts); err != nil {
		return "", 0, err
	}
	body := wire.Request{Label: c.labelOr(o.Label)}
	if o.Idle > 0 {
		body.IdleTimeout = wire.Seconds(o.Idle)
	}
	var answer wire.Session
	if err := c.repeat(ctx, request{Route: wire.CreateSession, Body: body}, &answer); err != nil {
		return "", 0, err
	}
	if !wire.IsSessionID(answer.ID) || answer.IdleTimeout < 1 {
		return "", 0, ErrNotUnderstood
	}
	return answer.ID, time.Duration(answer.IdleTimeout) * time.Second, nil
}

// Ping is like Store.Ping.
func (c *Client) Ping(ctx context.Context, session string) error {
	return c.inSession(ctx, wire.PingSession, wire.Request{Session: session}, new(wire.Empty))
}

// EndSession is like Store.EndSession.
func (c *Client) EndSession(ctx context.Context, session string) error {
	ctx, cancel := kvslots.Returning(ctx)
	defer cancel()
	return c.giveUp(ctx, wire.EndSession, wire.Request{Session: session})
}

// inSession sends a request of a session. It refuses an invalid session id, which must
// not become part of a path.
func (c *Client) inSession(ctx context.Context, to wire.Route, body wire.Request, into any) error {
	if !wire.IsSessionID(body.Session) {
		return kvslots.ErrSessionGone
	}
	return c.ask(ctx, request{Route: to, Body: body}, into)
}

// giveUp is inSession for a request that gives up what the session holds, and is repeated. A repeat finds nothing
// to give up if the answer to the request before it was lost.
func (c *Client) giveUp(ctx context.Context, to wire.Route, body wire.Request) error {
	if !wire.IsSessionID(body.Session) {
		return kvslots.ErrSessionGone
	}
	sent := 0
	err := c.repeatEach(ctx, request{Route: to, Body: body}, new(wire.Empty), func() { sent++ })
	if sent > 1 && (errors.Is(err, kvslots.ErrNotHeld) || errors.Is(err, kvslots.ErrSessionGone)) {
		return nil
	}
	return err
}

// Acquire is like Store.Acquire. If ctx ends first, the Client cancels the request: see
// "Cancellation" in the package comment.
func (c *Client) Acquire(ctx context.Context, session string, r kvslots.Resource, opts ...kvslots.Option) (kvslots.Grant, error) {
	body, key, wait, err := grantRequest(session, r, opts)
	if err != nil {
		return kvslots.Grant{}, err
	}
	var g kvslots.Grant
	err = c.take(ctx, taking{
		wait: wait, key: key, uncounted: body.Uncounted,
		ask: func(ctx context.Context, t *taking) (err error) {
			body.AcquireTimeout, body.Uncounted = new(wire.Seconds(t.asked)), t.uncounted
			g, err = c.grant(ctx, r, t.request(wire.ResourceRoute(r.Kind, subjects.Acquire), body))
			return err
		},
		undo: func(ctx context.Context) { _ = c.Release(ctx, session, r, g.Token) },
	})
	if err != nil {
		return kvslots.Grant{}, err
	}
	return g, nil
}

// Enqueue is like Store.Enqueue. If ctx ends first, the session may be in the line.
func (c *Client) Enqueue(ctx context.Context, session string, r kvslots.Resource, opts ...kvslots.Option) (g kvslots.Grant, acquired bool, err error) {
	body, key, _, err := grantRequest(session, r, opts)
	body.Uncounted = false
	if err != nil {
		return kvslots.Grant{}, false, err
	}
	g, err = c.grant(ctx, r, request{Route: wire.ResourceRoute(r.Kind, subjects.Enqueue), Body: body, Key: cmp.Or(key, uuid.NewString())})
	return g, g.Token != "", err
}

func grantRequest(session string, r kvslots.Resource, opts []kvslots.Option) (body wire.Request, key string, wait time.Duration, err error) {
	var o kvslots.Options
	if err := o.Apply(opts); err != nil {
		return body, "", 0, err
	}
	ttl, wait := o.Times()
	body = wire.Request{Session: session, Key: r.Key, LeaseTTL: wire.Seconds(ttl), Label: o.Label, Uncounted: o.Uncounted}
	if r.Kind == kvslots.KindSemaphore {
		body.Limit = r.Limit
	}
	return body, o.RequestKey, wait, r.Check(true)
}

// Wait is like Store.Wait. If ctx ends first, the Client cancels the request: see
// "Cancellation" in the package comment.
func (c *Client) Wait(ctx context.Context, session string, r kvslots.Resource, wait time.Duration) (kvslots.Grant, error) {
	if err := cmp.Or(kvslots.CheckTimes(time.Second, wait), r.Check(false)); err != nil {
		return kvslots.Grant{}, err
	}
	body := wire.Request{Session: session, Key: r.Key, WaitTimeout: new(wire.Seconds(wait))}
	return c.grant(ctx, r, request{Route: wire.ResourceRoute(r.Kind, subjects.Wait), Body: body, Wait: wait})
}

// Release is like Store.Release.
func (c *Client) Release(ctx context.Context, session string, r kvslots.Resource, token string) error {
	ctx, cancel := kvslots.Returning(ctx)
	defer cancel()
	if err := r.Check(false); err != nil {
		return err
	}
	return c.giveUp(ctx, wire.ResourceRoute(r.Kind, subjects.Release), wire.Request{Session: session, Key: r.Key, Token: token})
}

// RenewGrant is like Store.RenewGrant.
func (c *Client) RenewGrant(ctx context.Context, session string, r kvslots.Resource, token string, ttl time.Duration) (remaining time.Duration, err error) {
	if err := cmp.Or(kvslots.CheckTimes(ttl, 0), r.Check(false)); err != nil {
		return 0, err
	}
	var answer wire.Renewed
	body := wire.Request{Session: session, Key: r.Key, Token: token, LeaseTTL: wire.Seconds(ttl)}
	err = c.inSession(ctx, wire.ResourceRoute(r.Kind, subjects.Renew), body, &answer)
	return time.Duration(answer.Remaining) * time.Second, err
}

// GrantHolder is like Store.GrantHolder.
func (c *Client) GrantHolder(ctx context.Context, session string, r kvslots.Resource, token string) (h kvslots.HolderStats, err error) {
	if err := r.Check(false); err != nil {
		return h, err
	}
	if !wire.IsSessionID(session) {
		return h, kvslots.ErrSessionGone
	}
	body := wire.Request{Session: session, Key: r.Key, Token: token}
	err = c.ask(ctx, ofHolder(wire.ReadHolder, r.Key, body), &h)
	return h, err
}

// grant sends a request for a lock or a semaphore, for which the gateway may wait. The
// grant has no token if the session was queued.
func (c *Client) grant(ctx context.Context, r kvslots.Resource, ask request) (g kvslots.Grant, err error) {
	session := ask.Body.Session
	if !wire.IsSessionID(session) {
		return g, kvslots.ErrSessionGone
	}
	ask.Undo = func() request {
		given := wire.Request{Session: session, Key: r.Key, Token: g.Token}
		return request{Route: wire.ResourceRoute(r.Kind, subjects.Release), Body: given}
	}
	sent := clock.Now()
	err = c.send(ctx, ask, cmp.Or(c.timeout, answerTime), func(a answer) (err error) {
		if g, err = readGrant(a.Body); err != nil {
			return wire.Explained(err, a.Header)
		}
		g.At = time.Now().Add(sent + waited(a, sent) - clock.Now())
		return nil
	})
	if err != nil {
		return kvslots.Grant{}, kvslots.TakenName(err, r.Key)
	}
	return g, nil
}

func readGrant(body []byte) (kvslots.Grant, error) {
	var answer wire.Grant
	if json.Unmarshal(body, &answer) != nil {
		return kvslots.Grant{}, ErrNotUnderstood
	}
	switch answer.Status {
	case wire.GrantTimeout:
		return kvslots.Grant{}, kvslots.ErrNoSlot
	case wire.GrantQueued:
		return kvslots.Grant{}, nil
	}
	if !wire.IsToken(answer.Token) {
		return kvslots.Grant{}, ErrNotUnderstood
	}
	fence, err := strconv.ParseUint(answer.Token[:len(answer.Token)/2], 16, 64)
	return kvslots.Grant{Token: answer.Token, Fence: fence, TTL: time.Duration(answer.LeaseTTL) * time.Second}, err
}
