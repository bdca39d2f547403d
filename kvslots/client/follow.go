package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	// followFor is how long a gateway follows something before the client asks again. For that
	// time, and followGrace, nothing is followed if the gateway has died.
	followFor = 20 * time.Second

	// followGrace is how long a gateway may take to answer after that time.
	followGrace = 5 * time.Second

	// firstUnfollowed is the longest first pause after a request without success. Each further
	// one may be twice as long, up to longestUnfollowed. Meanwhile renewals tell of an end.
	firstUnfollowed   = time.Second
	longestUnfollowed = time.Minute
)

// FollowLease is like Store.FollowLease over NATS: see kvslots.Follower. While no gateway answers,
// it asks again after pauses of up to a minute, and when the connection is back.
func (c *Client) FollowLease(ctx context.Context, pool, lease uuid.UUID) error {
	return c.follow(ctx, request{Route: wire.FollowLease, body: wire.Request{
		ID: &pool, Lease: &lease, Wait: wire.Seconds(followFor),
	}})
}

// FollowSession is like Store.FollowSession over NATS: see FollowLease.
func (c *Client) FollowSession(ctx context.Context, session string) error {
	return c.followInSession(ctx, wire.FollowSession, wire.Request{Session: session})
}

// FollowGrant is like Store.FollowGrant over NATS: see FollowLease.
func (c *Client) FollowGrant(ctx context.Context, session string, r kvslots.Resource, token string) error {
	if err := r.Check(false); err != nil {
		return err
	}
	return c.followInSession(ctx, wire.FollowGrant(r.Kind), wire.Request{Session: session, Key: r.Key, Token: token})
}

func (c *Client) followInSession(ctx context.Context, to wire.Route, body wire.Request) error {
	if !wire.IsSessionID(body.Session) {
		return kvslots.ErrSessionGone
	}
	body.WaitTimeout = new(wire.Seconds(followFor))
	return c.follow(ctx, request{Route: to, body: body})
}

// follow sends requests until one tells of the end.
func (c *Client) follow(ctx context.Context, r request) error {
	over, ok := c.gateways.(*natsTransport)
	if !ok {
		return errors.ErrUnsupported
	}
	nc, err := over.connected(ctx)
	if err != nil {
		return err
	}
	back := nc.StatusChanged(nats.CONNECTED)
	defer nc.RemoveStatusListener(back)
	r.wait = followFor
	for pause := firstUnfollowed; ; {
		sent := time.Now()
		var followed wire.Followed
		err := c.send(ctx, r, followGrace, func(a answer) error { return a.decode(&followed) })
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case followed.Ended:
			return followed.Err()
		case err != nil && (!Temporary(err) || nc.IsClosed()):
			return err
		case err == nil && time.Since(sent) >= followFor/2:
			pause = firstUnfollowed
			continue
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-back:
			pause = firstUnfollowed
		case <-time.After(pause/2 + rand.N(pause/2)): // random, so that many clients do not ask at once
			pause = min(2*pause, longestUnfollowed)
		}
	}
}
