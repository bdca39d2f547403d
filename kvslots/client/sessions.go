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
	var answer wire.Session
	p := wire.Params{Label: c.labelOr(o.Label), IdleTimeout: o.Idle}
	if err := c.repeat(ctx, request{Route: wire.CreateSession, Params: p}, &answer); err != nil {
		return "", 0, err
	}
	if !wire.IsSessionID(answer.ID) || answer.IdleTimeout < 1 {
		return "", 0, ErrNotUnderstood
	}
	return answer.ID, time.Duration(answer.IdleTimeout) * time.Second, nil
}

// Ping is like Store.Ping.
func (c *Client) Ping(ctx context.Context, session string) error {
	return c.inSession(ctx, wire.PingSession, wire.Params{Session: session}, new(wire.Empty))
}

// EndSession is like Store.EndSession.
func (c *Client) EndSession(ctx context.Context, session string) error {
	ctx, cancel := kvslots.Returning(ctx)
	defer cancel()
	return c.giveUp(ctx, wire.EndSession, wire.Params{Session: session})
}

// inSession sends a request of a session. It refuses an invalid session id, which must
// not become part of a path.
func (c *Client) inSession(ctx context.Context, to wire.Route, p wire.Params, into any) error {
	if !wire.IsSessionID(p.Session) {
		return kvslots.ErrSessionGone
	}
	return c.ask(ctx, request{Route: to, Params: p}, into)
}

// giveUp is inSession for a request that gives up what the session holds, and is repeated. A repeat finds nothing
// to give up if the answer to the request before it was lost.
func (c *Client) giveUp(ctx context.Context, to wire.Route, p wire.Params) error {
	if !wire.IsSessionID(p.Session) {
		return kvslots.ErrSessionGone
	}
	sent := 0
	err := c.repeatEach(ctx, request{Route: to, Params: p}, new(wire.Empty), func() { sent++ })
	if sent > 1 && (errors.Is(err, kvslots.ErrNotHeld) || errors.Is(err, kvslots.ErrSessionGone)) {
		return nil
	}
	return err
}

// Acquire is like Store.Acquire. If ctx ends first, the Client cancels the request: see
// "Cancellation" in the package comment.
func (c *Client) Acquire(ctx context.Context, session string, r kvslots.Resource, opts ...kvslots.Option) (kvslots.Grant, error) {
	p, wait, err := grantParams(session, r, opts)
	if err != nil {
		return kvslots.Grant{}, err
	}
	var g kvslots.Grant
	err = c.take(ctx, taking{
		wait: wait, key: p.RequestKey, uncounted: p.Uncounted,
		ask: func(ctx context.Context, t *taking) (err error) {
			g, err = c.grant(ctx, r, t.request(wire.ResourceRoute(r.Kind, subjects.Acquire), p))
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
	p, _, err := grantParams(session, r, opts)
	if err != nil {
		return kvslots.Grant{}, false, err
	}
	p.RequestKey = cmp.Or(p.RequestKey, uuid.NewString())
	g, err = c.grant(ctx, r, request{Route: wire.ResourceRoute(r.Kind, subjects.Enqueue), Params: p})
	return g, g.Token != "", err
}

func grantParams(session string, r kvslots.Resource, opts []kvslots.Option) (p wire.Params, wait time.Duration, err error) {
	var o kvslots.Options
	if err := o.Apply(opts); err != nil {
		return p, 0, err
	}
	ttl, wait := o.Times()
	p = wire.Params{
		Session: session, Key: r.Key, Limit: r.Limit, TTL: ttl,
		RequestKey: o.RequestKey, Label: o.Label, Uncounted: o.Uncounted,
	}
	return p, wait, r.Check(true)
}

// Wait is like Store.Wait. If ctx ends first, the Client cancels the request: see
// "Cancellation" in the package comment.
func (c *Client) Wait(ctx context.Context, session string, r kvslots.Resource, wait time.Duration) (kvslots.Grant, error) {
	if err := cmp.Or(kvslots.CheckTimes(time.Second, wait), r.Check(false)); err != nil {
		return kvslots.Grant{}, err
	}
	p := wire.Params{Session: session, Key: r.Key, Wait: wait}
	return c.grant(ctx, r, request{Route: wire.ResourceRoute(r.Kind, subjects.Wait), Params: p})
}

// Release is like Store.Release.
func (c *Client) Release(ctx context.Context, session string, r kvslots.Resource, token string) error {
	ctx, cancel := kvslots.Returning(ctx)
	defer cancel()
	if err := r.Check(false); err != nil {
		return err
	}
	return c.giveUp(ctx, wire.ResourceRoute(r.Kind, subjects.Release), wire.Params{Session: session, Key: r.Key, Token: token})
}

// RenewGrant is like Store.RenewGrant.
func (c *Client) RenewGrant(ctx context.Context, session string, r kvslots.Resource, token string, ttl time.Duration) (remaining time.Duration, err error) {
	if err := cmp.Or(kvslots.CheckTimes(ttl, 0), r.Check(false)); err != nil {
		return 0, err
	}
	var answer wire.Renewed
	p := wire.Params{Session: session, Key: r.Key, Token: token, TTL: ttl}
	err = c.inSession(ctx, wire.ResourceRoute(r.Kind, subjects.Renew), p, &answer)
	return time.Duration(answer.Remaining) * time.Second, err
}

// GrantHolder is like Store.GrantHolder.
func (c *Client) GrantHolder(ctx context.Context, session string, r kvslots.Resource, token string) (h kvslots.HolderStats, err error) {
	if err := r.Check(false); err != nil {
		return h, err
	}
	err = c.inSession(ctx, wire.ReadHolder, wire.Params{Session: session, Key: r.Key, Token: token}, &h)
	return h, err
}

// grant sends a request for a lock or a semaphore, for which the gateway may wait. The
// grant has no token if the session was queued.
func (c *Client) grant(ctx context.Context, r kvslots.Resource, ask request) (g kvslots.Grant, err error) {
	session := ask.Session
	if !wire.IsSessionID(session) {
		return g, kvslots.ErrSessionGone
	}
	ask.Undo = func() request {
		given := wire.Params{Session: session, Key: r.Key, Token: g.Token}
		return request{Route: wire.ResourceRoute(r.Kind, subjects.Release), Params: given}
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
