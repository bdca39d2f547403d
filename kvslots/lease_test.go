package kvslots

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

func TestLeaseDone(t *testing.T) {
	peers := openPeers(t, natstest.Start(t, ""), 2)
	pool := newPool(t, peers[0], 4)
	for _, c := range []struct {
		name string
		ttl  time.Duration
		end  func(l *Lease) error
	}{
		{"returned", time.Minute, func(l *Lease) error { _, err := l.Return(t.Context()); return err }},
		{"returned elsewhere", time.Minute, func(l *Lease) error { _, err := peers[1].Return(t.Context(), pool, l.ID()); return err }},
		{"its time is over", time.Second, func(*Lease) error { return nil }},
		{"pool deleted elsewhere", time.Minute, func(*Lease) error { return peers[1].Delete(t.Context(), pool) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := peers[0].Borrow(t.Context(), pool, WithFixedTTL(c.ttl), WithWait(0))
			natstest.Must(t, err)
			select {
			case <-l.Done():
				if time.Now().Before(l.ExpiresAt()) {
					t.Fatal("ended at once")
				}
			default:
			}
			natstest.Must(t, c.end(l))
			<-l.Done()
			<-l.Done()
		})
	}
}

// A lease renews itself until it is lost or returned, unless its ttl is fixed.
func TestLeaseRenewsItself(t *testing.T) {
	peers := openPeers(t, natstest.Start(t, ""), 2)
	pool := newPool(t, peers[0], 1)
	l, err := peers[0].Borrow(t.Context(), pool, WithTTL(3*time.Second), WithWait(0)) // renewed after a third of its time
	natstest.Must(t, err)
	first := l.ExpiresAt()
	l.KeepAlive() // does so already
	other := newPool(t, peers[0], 1)
	fixed, err := peers[0].Borrow(t.Context(), other, WithFixedTTL(2*time.Second), WithWait(0))
	natstest.Must(t, err)
	eventually(t, "it is renewed", func() bool { return l.ExpiresAt().After(first) })
	wantState(t, peers[1], pool, State{Count: 1, InUse: 1})
	natstest.Must(t, peers[1].Delete(t.Context(), pool))
	<-l.Done() // lost: the renewals have stopped
	<-fixed.Done()
	wantErr(t, fixed.Err(), ErrExpired)
	returned, err := peers[0].Borrow(t.Context(), other)
	if err != nil || returned.TTL() != DefaultLeaseTTL {
		t.Fatalf("ttl %v, %v", returned.TTL(), err)
	}
	if ok, err := returned.Return(t.Context()); !ok || err != nil {
		t.Errorf("returned %v, %v", ok, err)
	}
	wantErr(t, l.Renew(t.Context(), time.Second), ErrNoPool)
}

// A borrow whose first claim was refused tells its caller the lease of its second claim.
func TestLeaseOfSecondClaim(t *testing.T) {
	srv := natstest.Start(t, "")
	first := openPeers(t, srv, 1)[0]
	pool := newPool(t, first, 2)
	var gate gate
	late, err := open(t.Context(), srv.Connect(), Config{Logger: logtest.Logger()}, gate.hook)
	natstest.Must(t, err)
	defer late.Close(context.Background())

	gate.shut()
	mustBorrow(t, first, pool)
	var l *Lease
	var borrowed sync.WaitGroup
	borrowed.Go(func() { l, err = late.Borrow(t.Context(), pool, WithFixedTTL(time.Minute), WithWait(0)) })
	eventually(t, "the late peer has claimed", func() bool { return counters(late).Claims == 1 })
	gate.open()
	if borrowed.Wait(); err != nil {
		t.Fatal(err)
	}
	if claims := counters(late).Claims; l.Position() != 1 || claims < 2 {
		t.Fatalf("position %d after %d claims", l.Position(), claims)
	}
	again, err := first.Renew(t.Context(), pool, l.ID(), time.Minute)
	natstest.Must(t, err)
	if again.Position() != 1 || again.Fence() != l.Fence() {
		t.Errorf("renewed to position %d and fence %d, from 1 and %d", again.Position(), again.Fence(), l.Fence())
	}
	mustReturn(t, first, pool, l)
}

// gate keeps back what a watch delivers while it is shut.
type gate struct {
	mu     sync.Mutex
	isShut bool
	held   []func()
}

func (g *gate) hook(m *nats.Msg, next func(*nats.Msg)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isShut {
		g.held = append(g.held, func() { next(m) })
	} else {
		next(m)
	}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.isShut = true
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.isShut = false
	for _, pass := range g.held {
		pass()
	}
}
