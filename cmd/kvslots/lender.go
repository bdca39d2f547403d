package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/background"
	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// lender sends requests to gateways through a client. Its errors are fit to be printed.
type lender struct {
	client *client.Client
	nats   *nats.Conn // nil over HTTP
	at     *settings.Gateway

	// timeout bounds a request, in addition to the wait that it asks for.
	timeout time.Duration
}

// httpTimeout is the timeout over HTTP. A gateway may take up to 30 s to complete a
// request that it has begun.
const httpTimeout = 35 * time.Second

// requestTimeout is the timeout over NATS.
const requestTimeout = 10 * time.Second

// dial connects to a gateway, or to NATS. The caller must close the lender.
func dial(at *settings.Gateway) (*lender, error) {
	if at.NATS.URL != "" {
		nc, err := dialNATS(&at.NATS)
		if err != nil {
			return nil, err
		}
		return &lender{client: client.New(nc).WithToken(at.Token.Value).Once(), nats: nc, at: at, timeout: requestTimeout}, nil
	}
	config, err := at.TLS.Config()
	if err != nil {
		return nil, err
	}
	over, err := client.Dial(strings.Join(at.Servers(), ","), client.Config{Token: at.Token.Value, TLS: config})
	if err != nil {
		return nil, err
	}
	return &lender{client: over.Once(), at: at, timeout: httpTimeout}, nil
}

func (l *lender) close() {
	l.client.Close()
	if l.nats != nil {
		l.nats.Close()
	}
}

func (l *lender) register(ctx context.Context, pool uuid.UUID, count int, opts ...kvslots.Option) (poolAnswer, error) {
	return ask(ctx, l, 0, func(ctx context.Context) (poolAnswer, error) {
		state, err := l.client.Register(ctx, pool, count, opts...)
		return poolAnswer(wire.NewPool(pool, state)), err
	})
}

func (l *lender) inspect(ctx context.Context, pool uuid.UUID) (inspectionAnswer, error) {
	return ask(ctx, l, 0, func(ctx context.Context) (inspectionAnswer, error) {
		answer, err := l.client.Inspection(ctx, pool)
		return inspectionAnswer(answer), err
	})
}

// describe returns the answer to an inspection, with the pool's title and what is out of service.
func (l *lender) describe(ctx context.Context, pool uuid.UUID) (inspection, error) {
	return ask(ctx, l, 0, func(ctx context.Context) (inspection, error) {
		detail, err := l.client.ReadPool(ctx, kvslots.ByID(pool), kvslots.DetailPage{})
		return inspection(wire.NewInspection(pool, &detail.PoolStats)), err
	})
}

func (l *lender) remove(ctx context.Context, pool uuid.UUID) (deletedAnswer, error) {
	return ask(ctx, l, 0, func(ctx context.Context) (deletedAnswer, error) {
		return deletedAnswer{true}, l.client.Delete(ctx, pool)
	})
}

func (l *lender) borrow(ctx context.Context, pool uuid.UUID, ttl, wait time.Duration, opts ...kvslots.Option) (leaseAnswer, error) {
	return l.askLease(ctx, wait, func(ctx context.Context) (*kvslots.Lease, error) {
		return l.client.Borrow(ctx, pool, ttl, wait, opts...)
	})
}

// renew returns errors.ErrUnsupported if the gateway cannot renew leases.
func (l *lender) renew(ctx context.Context, pool, lease uuid.UUID, ttl time.Duration) (leaseAnswer, error) {
	return l.askLease(ctx, 0, func(ctx context.Context) (*kvslots.Lease, error) {
		return l.client.Renew(ctx, pool, lease, ttl)
	})
}

func (l *lender) giveBack(ctx context.Context, pool, lease uuid.UUID) (bool, error) {
	return ask(ctx, l, 0, func(ctx context.Context) (bool, error) { return l.client.TryReturn(ctx, pool, lease) })
}

// askLease performs a call, and converts its lease to an answer. The client has computed
// the beginning of the lease from the gateway's answer.
func (l *lender) askLease(ctx context.Context, wait time.Duration, call func(context.Context) (*kvslots.Lease, error)) (leaseAnswer, error) {
	return ask(ctx, l, wait, func(ctx context.Context) (leaseAnswer, error) {
		sent := time.Now()
		lease, err := call(ctx)
		if err != nil {
			return leaseAnswer{}, err
		}
		answer := leaseAnswer(wire.NewLease(lease))
		answer.Waited = max(lease.ExpiresAt().Add(-lease.TTL()).Sub(sent), 0)
		return answer, nil
	})
}

// ask performs a call. The gateway may take up to wait, in addition to the timeout.
func ask[T any](ctx context.Context, l *lender, wait time.Duration, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, wait+l.timeout, client.ErrAnswerTimeout)
	defer cancel()
	if l.nats != nil {
		var stop func()
		ctx, stop = whileConnected(ctx, l.nats)
		defer stop()
	}
	answer, err := call(ctx)
	return answer, l.explain(err)
}

// errDisconnected is the cause when the connection to NATS is lost: the answer cannot
// arrive any more.
var errDisconnected = &client.Unanswered{Err: errors.New("NATS: not connected")}

// whileConnected returns a context that ends when the connection is lost, since a gateway
// that stops together with its NATS server never answers. If there is no connection the
// context has ended already: the client would buffer a request, and send it much later.
// stop must be called.
func whileConnected(ctx context.Context, nc *nats.Conn) (connected context.Context, stop func()) {
	ctx, disconnect := context.WithCancelCause(ctx)
	changes := nc.StatusChanged(nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED)
	if !nc.IsConnected() {
		disconnect(errDisconnected)
	}
	stopWatching := background.Run(func(stopped context.Context) {
		select {
		case <-changes:
			disconnect(errDisconnected)
		case <-stopped.Done():
		}
	})
	return ctx, func() {
		stopWatching()
		disconnect(nil)
		nc.RemoveStatusListener(changes)
	}
}
