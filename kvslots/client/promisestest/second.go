package promisestest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// second is a second client, which waits in line behind a call. It keeps what it is granted, so that the call gets nothing
// if it loses its place.
type second struct {
	store   *kvslots.Store
	lending *gateway.Lending // of the gateway; only the call waits there
	session *kvslots.Session
	pool    uuid.UUID
	do      string

	ctx   context.Context
	leave context.CancelFunc
	left  chan struct{} // closed when it has left the line
}

func newSecond(t *testing.T, store *kvslots.Store, lending *gateway.Lending, pool uuid.UUID, do string) *second {
	session, err := kvslots.NewSession(t.Context(), store)
	kvslotstest.Must(t, err)
	t.Cleanup(func() { _ = session.Close(t.Context()) })
	s := &second{store: store, lending: lending, session: session, pool: pool, do: do, left: make(chan struct{})}
	s.ctx, s.leave = context.WithCancel(t.Context())
	return s
}

// behind returns a fault: the second client joins the line when the call waits in its first request, and giveBack gives back
// what both wait for when the gateway has the second request, in the last second of the call's wait.
func (s *second) behind(giveBack func()) fault {
	var requests atomic.Int32
	return fault{to: map[string]string{borrow: toBorrow, lock: toLock + "x"}[s.do], do: func(x *exchange) {
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			passes(x)
		}()
		switch requests.Add(1) {
		case 1:
			s.whenWaiting(1)
			go s.join()
			s.whenWaiting(2)
		case 2:
			for s.lending.Open() == 0 && s.ctx.Err() == nil && !isClosed(answered) {
				<-time.After(time.Millisecond)
			}
			select { // a request that leaves the line is answered at once
			case <-answered:
			case <-time.After(100 * time.Millisecond):
			}
			giveBack()
		}
		<-answered
	}}
}

func (s *second) whenWaiting(n int) {
	of := map[string]kvslots.PoolRef{borrow: kvslots.ByID(s.pool), lock: kvslots.ByName("x")}[s.do]
	for s.ctx.Err() == nil {
		if detail, err := s.store.ReadPool(s.ctx, of, kvslots.DetailPage{}); err == nil && detail.Waiting >= n {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

func (s *second) join() {
	defer close(s.left)
	keep := func(ctx context.Context) error { <-ctx.Done(); return nil }
	if s.do == lock {
		_ = s.session.With(s.ctx, "x", func(ctx context.Context, _ uint64) error { return keep(ctx) })
	} else {
		_ = kvslots.With(s.ctx, s.store, s.pool, func(ctx context.Context, _ *kvslots.Lease) error { return keep(ctx) })
	}
}
