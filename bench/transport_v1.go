package bench

import (
	"context"
	"errors"
	"time"

	"github.com/kvslots/kvslots/kvslots/subjects"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// v1Transport is the API /v1 of a gateway: named locks and semaphores of sessions. Its
// pools are semaphores with new names.
type v1Transport struct {
	to   Endpoint
	hold Holder
}

func V1(to Endpoint, hold Holder) Transport { return v1Transport{to, hold} }

func (d v1Transport) Name() string { return transportV1 }

func (d v1Transport) Pools(ctx context.Context, _, slots, clients int) (Pools, error) {
	return d.Named(ctx, slots, clients)
}

func (d v1Transport) Named(ctx context.Context, slots, clients int) (Pools, error) {
	c, err := newHTTPClients(d.to, d.hold, clients)
	if err != nil {
		return nil, err
	}
	made, err := clientTransport{transportV1, c.api}.Named(ctx, slots, clients)
	return &v1Names{c, made.(*clientNames)}, withStatus(err)
}

// v1Names are locks, or semaphores with the same limit.
type v1Names struct {
	httpClients
	*clientNames
}

func (n *v1Names) request(client, pool int, operation string, p wire.Params) []byte {
	header := wire.SessionHeader + ": " + n.sessions[client] + "\r\n"
	on := n.resource(pool)
	p.Key, p.Limit = on.Key, on.Limit
	route := wire.ResourceRoute(on.Kind, operation)
	return n.to.request("POST", route.Target(&p), header, route.Body(&p))
}

func (n *v1Names) acquire(client, pool int, ttl, wait time.Duration) []byte {
	return n.request(client, pool, subjects.Acquire, wire.Params{Wait: wait, TTL: ttl})
}

var errTimeout = errors.New("bench: not granted in time")

func (n *v1Names) Take(ctx context.Context, client, pool int, ttl, wait time.Duration) (Held, error) {
	var grant wire.Grant
	if err := n.ask(ctx, client, n.acquire(client, pool, ttl, wait), &grant); err != nil {
		return Held{}, err
	}
	if grant.Status != wire.GrantOK {
		return Held{}, errTimeout
	}
	return Held{token: grant.Token, Ends: time.Now().Add(time.Duration(grant.LeaseTTL) * time.Second)}, nil
}

func (n *v1Names) Give(ctx context.Context, client, pool int, held Held) error {
	return n.ask(ctx, client, n.request(client, pool, subjects.Release, wire.Params{Token: held.token}), nil)
}

// Waiting reads all statistics, since /v1 has no statistics of a single name.
func (n *v1Names) Waiting(ctx context.Context, pool int) (int, error) {
	type line struct {
		Key     string `json:"key"`
		Waiters int    `json:"waiters"`
	}
	var stats struct {
		Locks      []line `json:"locks"`
		Semaphores []line `json:"semaphores"`
	}
	if err := n.ask(ctx, 0, n.to.request("GET", "/v1/stats", "", nil), &stats); err != nil {
		return 0, err
	}
	for _, l := range append(stats.Locks, stats.Semaphores...) {
		if l.Key == n.resource(pool).Key {
			return l.Waiters, nil
		}
	}
	return 0, nil
}

func (n *v1Names) Queue(ctx context.Context, pool int) (leave func() error, err error) {
	return n.queue(ctx, func(client int) []byte { return n.acquire(client, pool, longTTL, longWait) })
}

func (n *v1Names) Close(ctx context.Context) error { return n.closeAll(ctx, n.clientNames) }
