package client

import (
	"context"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/subjects"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// Follower is for the Leases, Sessions and Mutexes of the Client. Over HTTP its methods return
// errors.ErrUnsupported. Over NATS, while no gateway answers, they ask again after pauses of up to a minute, and
// when the connection is back.
func (c *Client) Follower() kvslots.Follower { return follower{c} }

type follower struct{ c *Client }

func (f follower) Lease(ctx context.Context, pool, lease uuid.UUID) error {
	return f.c.gateways.Follow(ctx, request{Route: wire.FollowLease, Body: wire.Request{ID: &pool, Lease: &lease}})
}

func (f follower) Session(ctx context.Context, session string) error {
	return f.inSession(ctx, wire.FollowSession, wire.Request{Session: session})
}

func (f follower) Grant(ctx context.Context, session string, r kvslots.Resource, token string) error {
	if err := r.Check(false); err != nil {
		return err
	}
	return f.inSession(ctx, wire.ResourceRoute(r.Kind, subjects.Follow), wire.Request{Session: session, Key: r.Key, Token: token})
}

func (f follower) inSession(ctx context.Context, to wire.Route, body wire.Request) error {
	if !wire.IsSessionID(body.Session) {
		return kvslots.ErrSessionGone
	}
	return f.c.gateways.Follow(ctx, request{Route: to, Body: body})
}
