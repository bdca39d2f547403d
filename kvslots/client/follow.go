package client

import (
	"context"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// FollowLease is like Store.FollowLease over NATS: see kvslots.Follower. While no gateway answers,
// it asks again after pauses of up to a minute, and when the connection is back.
func (c *Client) FollowLease(ctx context.Context, pool, lease uuid.UUID) error {
	return c.gateways.Follow(ctx, request{Route: wire.FollowLease, Body: wire.Request{ID: &pool, Lease: &lease}})
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
	return c.gateways.Follow(ctx, request{Route: to, Body: body})
}
