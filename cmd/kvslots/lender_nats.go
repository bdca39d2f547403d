package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// pools is what client.Client does.
type pools interface {
	Register(ctx context.Context, pool uuid.UUID, count int) (kvslots.State, error)
	Inspect(ctx context.Context, pool uuid.UUID) (kvslots.State, error)
	Delete(ctx context.Context, pool uuid.UUID) error
	Borrow(ctx context.Context, pool uuid.UUID, ttl, wait time.Duration, opts ...kvslots.BorrowOption) (*kvslots.Lease, error)
	Return(ctx context.Context, pool, lease uuid.UUID) (bool, error)
	Renew(ctx context.Context, pool, lease uuid.UUID, ttl time.Duration) (*kvslots.Lease, error)
}

// natsLender asks over NATS, whatever gateway takes the request.
type natsLender struct {
	pools pools
	nc    *nats.Conn
}

func newNATSLender(nc *nats.Conn) *natsLender { return &natsLender{client.New(nc), nc} }

func (n *natsLender) close() { n.nc.Close() }

func (n *natsLender) register(ctx context.Context, pool uuid.UUID, count int) (poolAnswer, error) {
	ctx, cancel := n.within(ctx, requestTimeout)
	defer cancel()
	state, err := n.pools.Register(ctx, pool, count)
	return poolAnswerOf(pool, state), refusalOf(err)
}

func (n *natsLender) inspect(ctx context.Context, pool uuid.UUID) (poolAnswer, error) {
	ctx, cancel := n.within(ctx, requestTimeout)
	defer cancel()
	state, err := n.pools.Inspect(ctx, pool)
	return poolAnswerOf(pool, state), refusalOf(err)
}

func (n *natsLender) remove(ctx context.Context, pool uuid.UUID) error {
	ctx, cancel := n.within(ctx, requestTimeout)
	defer cancel()
	return refusalOf(n.pools.Delete(ctx, pool))
}

func (n *natsLender) borrow(ctx context.Context, pool uuid.UUID, ttl, wait time.Duration) (leaseAnswer, error) {
	ctx, cancel := n.within(ctx, wait+requestTimeout)
	defer cancel()
	sent := time.Now()
	lease, err := n.pools.Borrow(ctx, pool, ttl, wait)
	return leaseAnswerOf(lease, sent, err)
}

func (n *natsLender) giveBack(ctx context.Context, pool, lease uuid.UUID) (bool, error) {
	ctx, cancel := n.within(ctx, requestTimeout)
	defer cancel()
	returned, err := n.pools.Return(ctx, pool, lease)
	return returned, refusalOf(err)
}

func (n *natsLender) renew(ctx context.Context, pool, lease uuid.UUID, ttl time.Duration) (leaseAnswer, error) {
	ctx, cancel := n.within(ctx, requestTimeout)
	defer cancel()
	sent := time.Now()
	renewed, err := n.pools.Renew(ctx, pool, lease, ttl)
	return leaseAnswerOf(renewed, sent, err)
}

// within bounds a request in time, and ends it when the connection is gone: a
// gateway that goes away with its NATS never answers. Without a connection it has
// ended already, since what is sent then would arrive much later.
func (n *natsLender) within(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	ctx, disconnect := context.WithCancelCause(ctx)
	changes := n.nc.StatusChanged(nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED)
	if !n.nc.IsConnected() {
		disconnect(errDisconnected)
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-changes:
			disconnect(errDisconnected)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel()
		<-watched
		n.nc.RemoveStatusListener(changes)
	}
}

func poolAnswerOf(pool uuid.UUID, state kvslots.State) poolAnswer {
	return poolAnswer(wire.NewPool(pool, state))
}

// leaseAnswerOf describes a lease that was asked for at the given time. The
// gateway says how long it waited before the lease began, and the client counts
// that in.
func leaseAnswerOf(lease *kvslots.Lease, sent time.Time, err error) (leaseAnswer, error) {
	if err != nil {
		return leaseAnswer{}, refusalOf(err)
	}
	answer := leaseAnswer(wire.NewLease(lease))
	answer.Waited = max(lease.ExpiresAt().Add(-lease.TTL()).Sub(sent), 0)
	return answer, nil
}

// errDisconnected is returned when the connection to NATS is gone, and with it
// the answer.
var errDisconnected = unanswered{errors.New("NATS: not connected")}

// refusalOf is an error of the client as it is told. What is no refusal is a failure
// on the way, which no gateway has answered.
func refusalOf(err error) error {
	if refused, ok := errors.AsType[*wire.Refusal](err); ok {
		refused.Text = printable(refused.Text)
		return refused
	}
	if errors.Is(err, kvslots.ErrUnavailable) {
		text := strings.TrimPrefix(err.Error(), kvslots.ErrUnavailable.Error()+": ")
		return unanswered{fmt.Errorf("NATS: %s", printable(text))}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return unanswered{errors.New("NATS: no gateway answered in time")}
	}
	return err
}
