package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/clock"
)

// clientTransport is a transport for Go programs: a peer of the library in this process,
// or its client.
type clientTransport struct {
	name string
	api  kvslots.Service
}

func Library(store *kvslots.Store) Transport { return clientTransport{TransportLibrary, store} }

func NATS(c *client.Client) Transport { return clientTransport{transportNATS, c} }

func (d clientTransport) Name() string { return d.name }

func (d clientTransport) Pools(ctx context.Context, pools, slots, clients int) (Pools, error) {
	p := &clientPools{api: d.api, ids: newIDs(pools), clients: clients}
	return p, p.register(ctx, slots)
}

func (d clientTransport) Share(ids []uuid.UUID, clients int) (Pools, error) {
	return &clientPools{api: d.api, ids: ids, clients: clients}, nil
}

func newIDs(n int) []uuid.UUID {
	ids := make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = uuid.New()
	}
	return ids
}

func (d clientTransport) Named(ctx context.Context, slots, clients int) (Pools, error) {
	n := &clientNames{api: d.api, base: uuid.NewString(), slots: slots, sessions: make([]string, clients)}
	err := forEach(clients, func(i int) (err error) {
		n.sessions[i], _, err = d.api.CreateSession(ctx, kvslots.WithIdle(time.Hour))
		return err
	})
	return n, err
}

type clientPools struct {
	api     kvslots.Service
	ids     []uuid.UUID
	clients int
}

func (p *clientPools) register(ctx context.Context, slots int) error {
	return forEach(len(p.ids), func(i int) error {
		_, err := p.api.Register(ctx, p.ids[i], slots)
		return err
	})
}

func (p *clientPools) Take(ctx context.Context, _, pool int, ttl, wait time.Duration) (Held, error) {
	lease, err := p.api.Borrow(ctx, p.ids[pool], kvslots.WithFixedTTL(ttl), kvslots.WithWait(wait))
	if err != nil {
		return Held{}, err
	}
	return Held{lease: lease.ID(), Ends: lease.ExpiresAt()}, nil
}

func (p *clientPools) Give(ctx context.Context, _, pool int, held Held) error {
	returned, err := p.api.Return(ctx, p.ids[pool], held.lease)
	if err == nil && !returned {
		return errNotReturned
	}
	return err
}

var errNotReturned = errors.New("bench: the lease had ended before it was returned")

func (p *clientPools) Waiting(ctx context.Context, pool int) (int, error) {
	state, err := p.api.Inspect(ctx, p.ids[pool])
	return state.Waiting, err
}

// Queue starts a goroutine for each client: requests of these transports block their
// callers. A client that is refused asks again: of very many requests that arrive at once, a
// busy gateway answers some with 503 (gateway/natsapi/README.md, "Limits").
func (p *clientPools) Queue(ctx context.Context, pool int) (leave func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var refused atomic.Pointer[error]
	for client := range p.clients {
		wg.Go(func() {
			for {
				_, err := p.Take(ctx, client, pool, longTTL, longWait)
				if err == nil || ctx.Err() != nil {
					return
				}
				refused.Store(&err)
				clock.Sleep(ctx, refusedPause)
			}
		})
	}
	return func() error {
		cancel()
		wg.Wait()
		if err := refused.Load(); err != nil {
			return fmt.Errorf("bench: the last refusal of a waiter: %w", *err)
		}
		return nil
	}, nil
}

// refusedPause is how long a refused client waits before it asks again: as long as a gateway
// says in Retry-After.
const refusedPause = time.Second

func (p *clientPools) Close(ctx context.Context) error {
	return forEach(len(p.ids), func(i int) error { return p.api.Delete(ctx, p.ids[i]) })
}

type clientNames struct {
	api      kvslots.Service
	base     string // prefix of the keys, unique to this measurement
	slots    int
	sessions []string // by client
}

func (n *clientNames) resource(pool int) kvslots.Resource {
	key := fmt.Sprintf("bench:%s:%d", n.base, pool)
	if n.slots == 1 {
		return kvslots.Lock(key)
	}
	return kvslots.Semaphore(key, n.slots)
}

func (n *clientNames) Take(ctx context.Context, client, pool int, ttl, wait time.Duration) (Held, error) {
	grant, err := n.api.Acquire(ctx, n.sessions[client], n.resource(pool), kvslots.WithTTL(ttl), kvslots.WithWait(wait))
	return Held{token: grant.Token, Ends: time.Now().Add(grant.TTL)}, err
}

func (n *clientNames) Give(ctx context.Context, client, pool int, held Held) error {
	return n.api.Release(ctx, n.sessions[client], n.resource(pool), held.token)
}

func (n *clientNames) Waiting(context.Context, int) (int, error) { return 0, errors.ErrUnsupported }

func (n *clientNames) Queue(context.Context, int) (func() error, error) {
	return nil, errors.ErrUnsupported
}

func (n *clientNames) Close(ctx context.Context) error {
	return forEach(len(n.sessions), func(i int) error {
		err := n.api.EndSession(ctx, n.sessions[i])
		if errors.Is(err, kvslots.ErrSessionGone) { // an earlier call has ended it
			return nil
		}
		return err
	})
}
