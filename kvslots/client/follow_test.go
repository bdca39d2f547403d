package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/kvslots/natsstore"
)

// kicked is something that a client holds, and how others end it.
type kicked struct {
	done <-chan struct{}
	err  func() error
	kick func(context.Context, *kvslots.Store) error
	want error
	n    int // the requests that follow it
}

// holdLease holds the slot of a new pool. The next renewal is minutes away.
func holdLease(t *testing.T, c *client.Client, kick func(context.Context, *kvslots.Store, *kvslots.Lease, uuid.UUID) error, want error) kicked {
	t.Helper()
	pool := uuid.New()
	kvslotstest.Must(t, kvslotstest.Err(c.Register(t.Context(), pool, 1)))
	lease, err := c.Borrow(t.Context(), pool, kvslots.WithTTL(10*time.Minute), kvslots.WithWait(0))
	kvslotstest.Must(t, err)
	return kicked{lease.Done(), lease.Err, func(ctx context.Context, s *kvslots.Store) error { return kick(ctx, s, lease, pool) }, want, 1}
}

func returnedByOther(ctx context.Context, s *kvslots.Store, l *kvslots.Lease, pool uuid.UUID) error {
	_, err := s.Return(ctx, pool, l.ID())
	return err
}

func poolDeleted(ctx context.Context, s *kvslots.Store, _ *kvslots.Lease, pool uuid.UUID) error {
	return s.Delete(ctx, pool)
}

func evicted(ctx context.Context, s *kvslots.Store, l *kvslots.Lease, pool uuid.UUID) error {
	_, err := s.Evict(ctx, kvslots.ByID(pool), l.Position(), l.Fence())
	return err
}

func newSession(t *testing.T, c *client.Client) *kvslots.Session {
	t.Helper()
	session, err := kvslots.NewSession(t.Context(), c, kvslots.WithIdle(10*time.Minute))
	kvslotstest.Must(t, err)
	t.Cleanup(func() {
		if err := session.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return session
}

func lockedIn(t *testing.T, session *kvslots.Session, name string) *kvslots.Mutex {
	t.Helper()
	m := session.Mutex(name, kvslots.WithTTL(10*time.Minute))
	kvslotstest.Must(t, m.Lock(t.Context()))
	return m
}

// holding returns what clients hold, by name.
var holding = map[string]func(*testing.T, *client.Client) kicked{
	"lease returned": func(t *testing.T, c *client.Client) kicked {
		return holdLease(t, c, returnedByOther, kvslots.ErrNotHeld)
	},
	"pool deleted": func(t *testing.T, c *client.Client) kicked {
		return holdLease(t, c, poolDeleted, kvslots.ErrNoPool)
	},
	"lease evicted": func(t *testing.T, c *client.Client) kicked {
		return holdLease(t, c, evicted, kvslots.ErrEvicted)
	},
	"session ended": func(t *testing.T, c *client.Client) kicked {
		session := newSession(t, c)
		return kicked{session.Done(), session.Err, func(ctx context.Context, s *kvslots.Store) error {
			return s.EndSession(ctx, session.ID())
		}, kvslots.ErrSessionGone, 1}
	},
	"mutex of an ended session": func(t *testing.T, c *client.Client) kicked {
		session := newSession(t, c)
		m := lockedIn(t, session, uuid.NewString())
		return kicked{m.Done(), m.Err, func(ctx context.Context, s *kvslots.Store) error {
			return s.EndSession(ctx, session.ID())
		}, kvslots.ErrSessionGone, 2}
	},
	"mutex evicted": func(t *testing.T, c *client.Client) kicked {
		name := uuid.NewString()
		m := lockedIn(t, newSession(t, c), name)
		return kicked{m.Done(), m.Err, func(ctx context.Context, s *kvslots.Store) error {
			_, err := s.Evict(ctx, kvslots.ByName(name), 0, m.Fence())
			return err
		}, kvslots.ErrEvicted, 2}
	},
	"semaphore released": func(t *testing.T, c *client.Client) kicked {
		session := newSession(t, c)
		on := kvslots.Semaphore(uuid.NewString(), 2)
		g, err := c.Acquire(t.Context(), session.ID(), on, kvslots.WithTTL(10*time.Minute), kvslots.WithWait(0))
		kvslotstest.Must(t, err)
		ctx, cancel := context.WithCancelCause(context.Background())
		var following sync.WaitGroup
		following.Go(func() { cancel(c.Follower().Grant(ctx, session.ID(), on, g.Token)) })
		t.Cleanup(following.Wait)
		return kicked{ctx.Done(), func() error { return context.Cause(ctx) }, func(ctx context.Context, s *kvslots.Store) error {
			return s.Release(ctx, session.ID(), on, g.Token)
		}, kvslots.ErrNotHeld, 2}
	},
}

// wantKicked ends k, which is followed, and returns how long it took until its holder knew.
func (r *restartable) wantKicked(t *testing.T, k kicked) time.Duration {
	t.Helper()
	if err := k.err(); err != nil {
		t.Fatalf("ended before: %v", err)
	}
	began := time.Now()
	kvslotstest.Must(t, k.kick(t.Context(), r.store))
	select {
	case <-k.done:
	case <-time.After(time.Minute): // a renewal would come later
		t.Fatal("the holder does not know")
	}
	took := time.Since(began)
	if err := k.err(); !errors.Is(err, k.want) {
		t.Errorf("the cause is %v, want %v", err, k.want)
	}
	return took
}

// What another client ends is noticed long before the next renewal.
func TestFollow(t *testing.T) {
	r := serveRestartable(t)
	for name, hold := range holding {
		t.Run(name, func(t *testing.T) {
			var took []time.Duration
			for i := range 20 {
				t.Run(fmt.Sprint(i), func(t *testing.T) {
					k := hold(t, dial(t, r.srv.ClientURL()))
					r.waitFollowed(t, k.n)
					took = append(took, r.wantKicked(t, k))
				})
				r.waitFollowed(t, 0)
			}
			slices.Sort(took)
			t.Logf("noticed after %v … %v … %v", took[0], took[len(took)/2], took[len(took)-1])
		})
	}
}

// Over HTTP nothing is followed.
func TestFollowOverHTTP(t *testing.T) {
	c := serve(t).overHTTP(t)
	if err := c.Follower().Lease(t.Context(), uuid.New(), uuid.New()); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

// A lease that has ended before, and a session that was never there, are answered at once.
func TestFollowTheEnded(t *testing.T) {
	g := serve(t)
	c := g.overNATS(t)
	lock, token := kvslots.Lock("a"), "00000000000000000123456789abcdef"
	unknown := token
	if err := c.Follower().Lease(t.Context(), uuid.New(), uuid.New()); !errors.Is(err, kvslots.ErrNoPool) {
		t.Error(err)
	}
	for _, err := range []error{
		c.Follower().Session(t.Context(), unknown), c.Follower().Session(t.Context(), "x"), c.Follower().Grant(t.Context(), unknown, lock, token),
	} {
		if !errors.Is(err, kvslots.ErrSessionGone) {
			t.Error(err)
		}
	}
	session := newSession(t, c)
	if err := c.Follower().Grant(t.Context(), session.ID(), lock, token); !errors.Is(err, kvslots.ErrNotHeld) {
		t.Error(err)
	}
	if err := c.Follower().Grant(t.Context(), session.ID(), kvslots.Lock(""), token); err == nil || errors.Is(err, kvslots.ErrNotHeld) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.ErrUnsupported)
	if err := c.Follower().Session(ctx, session.ID()); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

// restartable is a gateway over NATS that can be stopped.
type restartable struct {
	srv   *kvslotstest.Server
	nc    *nats.Conn // for statistics
	store *kvslots.Store
	stop  func()
}

func serveRestartable(t *testing.T) *restartable {
	t.Helper()
	r := &restartable{srv: kvslotstest.Start(t, "")}
	r.nc = r.srv.Connect()
	var err error
	r.store, err = natsstore.Open(t.Context(), r.srv.Connect(), kvslots.Config{Logger: logtest.Logger()})
	natstest.Must(t, err)
	t.Cleanup(func() { _ = r.store.Close(context.Background()) })
	r.start(t)
	t.Cleanup(func() { r.stop() })
	return r
}

func (r *restartable) start(t *testing.T) {
	t.Helper()
	lending := gateway.NewLending()
	nc := r.srv.Connect(nats.ReconnectBufSize(-1))
	service, err := natsapi.Start(nc, natsapi.Config{
		Pools: r.store, Sessions: r.store, Turns: gateway.NewTurns(), Lending: lending, VerbsPerSecond: 1e9, Logger: logtest.Logger(),
	})
	kvslotstest.Must(t, err)
	r.stop = sync.OnceFunc(func() {
		lending.Stop()
		if err := service.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// waitFollowed waits until the gateway follows something for n requests.
func (r *restartable) waitFollowed(t *testing.T, n int) {
	t.Helper()
	natstest.Eventually(t, "following", func() bool {
		m, err := r.nc.RequestWithContext(t.Context(), "$SRV.STATS.kvslots", nil)
		kvslotstest.Must(t, err)
		var all struct {
			Endpoints []struct {
				Name string
				Data struct{ Open int }
			}
		}
		kvslotstest.Must(t, json.Unmarshal(m.Data, &all))
		open := 0
		for _, e := range all.Endpoints {
			if strings.HasSuffix(e.Name, "follow") {
				open += e.Data.Open
			}
		}
		return open == n
	})
}

// A client whose gateway stops holds what it has, and follows it again at the next gateway.
func TestFollowAcrossARestart(t *testing.T) {
	r := serveRestartable(t)
	c := dial(t, r.srv.ClientURL())
	session, err := kvslots.NewSession(t.Context(), c, kvslots.WithIdle(10*time.Minute)) // or the lock takes a second one
	kvslotstest.Must(t, err)
	defer session.Close(context.Background())
	m := lockedIn(t, session, "a")
	lease := holdLease(t, c, returnedByOther, kvslots.ErrNotHeld)
	r.waitFollowed(t, 3)
	r.stop() // a stopped gateway has answered what it had to
	if m.Err() != nil || session.Err() != nil || lease.err() != nil {
		t.Fatal(m.Err(), session.Err(), lease.err())
	}
	r.start(t)
	r.waitFollowed(t, 3)
	r.wantKicked(t, lease)
	if err := m.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}

// Without a gateway, and with one that refuses, a client asks again after pauses that grow.
func TestFollowRestsAfterRefusals(t *testing.T) {
	t.Parallel() // waits for seconds
	srv := kvslotstest.Start(t, "")
	var mu sync.Mutex
	var asked []time.Time
	_, err := srv.Connect().Subscribe("kvslots.follow", func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, time.Now())
		answer := nats.NewMsg(m.Reply)
		answer.Header.Set("Nats-Service-Error-Code", "503")
		answer.Header.Set("Kvslots-Error", "busy")
		_ = m.RespondMsg(answer)
	})
	kvslotstest.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	c := dial(t, srv.ClientURL())
	var following sync.WaitGroup
	following.Go(func() {
		if err := c.Follower().Lease(ctx, uuid.New(), uuid.New()); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	natstest.Eventually(t, "asked three times", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(asked) >= 3
	})
	cancel()
	following.Wait()
	if took := asked[2].Sub(asked[0]); took < 1500*time.Millisecond {
		t.Errorf("three requests in %v", took)
	}
}
