package kvslots

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// A restart on the same directory keeps every pool and every lease with its remaining
// time.
func TestRestartKeepsLeases(t *testing.T) {
	besideOthers(t)
	dir := t.TempDir()
	srv := natstest.Start(t, dir, syncAlways)
	s, err := Open(t.Context(), srv.Connect(), Config{Logger: logtest.Logger()})
	natstest.Must(t, err)
	pool := newPool(t, s, 3)
	short, err := s.Borrow(t.Context(), pool, WithFixedTTL(2*time.Second), WithWait(0))
	natstest.Must(t, err)
	long := mustBorrow(t, s, pool)
	natstest.Must(t, s.Close(t.Context()))
	srv.Stop()

	srv = natstest.Start(t, dir, syncAlways)
	s = openPeers(t, srv, 1)[0]
	state, err := s.Inspect(t.Context(), pool)
	next := mustBorrow(t, s, pool)
	if time.Now().Before(short.ExpiresAt()) && (err != nil || state != State{Count: 3, InUse: 2, Available: 1} || next.Position() != 2) {
		t.Fatalf("inspect: %+v, %v; then got position %d", state, err, next.Position())
	}
	if next.Fence() <= long.Fence() {
		t.Fatalf("fence %d after %d", next.Fence(), long.Fence())
	}
	eventually(t, "the short one ends", func() bool {
		state, err := s.Inspect(t.Context(), pool)
		return err == nil && state.InUse == 2
	})
	if early := time.Until(short.ExpiresAt()); early > 0 {
		t.Errorf("it ended %s early", early)
	}
	mustReturn(t, s, pool, long)
}

func syncAlways(o *server.Options) { o.SyncAlways = true }

// The server restarts many times under load. Every answer to a client stays true.
func TestServerRestarts(t *testing.T) {
	besideOthers(t)
	srv := natstest.Start(t, t.TempDir(), syncAlways)
	var stores []*Store
	for range 2 {
		nc, err := nats.Connect(srv.ClientURL(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
		natstest.Must(t, err)
		defer nc.Close()
		s := openPeer(t, nc, Config{})
		stores = append(stores, s)
	}
	pool := newPool(t, stores[0], 5)
	stop := make(chan struct{})
	var mu sync.Mutex
	holds := map[int]uuid.UUID{}
	granted := 0
	var wg sync.WaitGroup
	for i := range 20 {
		s := stores[i%2]
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				l, err := s.Borrow(context.Background(), pool, WithFixedTTL(time.Minute), WithWait(time.Second))
				if err != nil {
					if !errors.Is(err, ErrNoSlot) && !errors.Is(err, ErrUnavailable) {
						t.Error(err)
					}
					continue
				}
				mu.Lock()
				granted++
				if other, taken := holds[l.Position()]; taken {
					t.Errorf("position %d was lent twice: %v", l.Position(), other != l.ID())
				}
				holds[l.Position()] = l.ID()
				mu.Unlock()
				mu.Lock()
				delete(holds, l.Position())
				mu.Unlock()
				for {
					ok, err := s.Return(context.Background(), pool, l.ID())
					if err == nil {
						_ = ok // false when an earlier try had gone through
						break
					}
					if !errors.Is(err, ErrUnavailable) {
						t.Error(err)
						break
					}
				}
			}
		})
	}
	for range 3 {
		before := progress(&mu, &granted)
		eventually(t, "slots are lent", func() bool { return progress(&mu, &granted) > before+50 })
		srv.Restart()
	}
	before := progress(&mu, &granted)
	eventually(t, "slots are lent again", func() bool { return progress(&mu, &granted) > before+50 })
	close(stop)
	wg.Wait()
	eventually(t, "nothing is left", func() bool {
		state, err := stores[0].Inspect(t.Context(), pool)
		return err == nil && state == State{Count: 5, Available: 5}
	})
	t.Logf("%d leases over 3 restarts", granted)
}

func progress(mu *sync.Mutex, n *int) int {
	mu.Lock()
	defer mu.Unlock()
	return *n
}

// Entries that are not kvslots' own are logged once, as a hash, and otherwise ignored.
func TestForeignEntries(t *testing.T) {
	srv := natstest.Start(t, "")
	var log logtest.Log
	nc := srv.Connect()
	s := openPeer(t, nc, Config{Logger: log.Logger()})
	pool := newPool(t, s, 2)
	js := natstest.JetStream(t, nc)
	for _, key := range []string{
		"secret-name", "p.x.cfg", slotKey(pool, 0).String(), slotKey(pool, 0).String() + ".x",
		"p." + poolHash(pool).String() + ".w.zzz.1", "n.zzz",
	} {
		for range 2 {
			natstest.Must(t, natstest.Err(js.Publish(t.Context(), bucket.SubjectPrefix+key, []byte("\x1b[31m{{{"))))
		}
	}
	if l := mustBorrow(t, s, pool); l.Position() != 0 {
		t.Fatalf("got position %d", l.Position())
	}
	mustBorrow(t, s, pool)
	wantState(t, s, pool, State{Count: 2, InUse: 2})
	logged := func() int { return strings.Count(log.String(), "foreign or corrupt") }
	eventually(t, "they are logged", func() bool { return logged() >= 6 }) // which may be after the answers
	text := log.String()
	if n := logged(); n != 6 {
		t.Errorf("logged %d times:\n%s", n, text)
	}
	if strings.Contains(text, "secret-name") || strings.Contains(text, "\x1b") || strings.Contains(text, pool.String()) {
		t.Errorf("the log shows too much:\n%s", text)
	}
}

// No credential is stored: the bucket has hashes only.
func TestNoSecretsInBucket(t *testing.T) {
	srv := natstest.Start(t, "")
	s := openPeers(t, srv, 1)[0]
	pool := newPool(t, s, 1)
	l := mustBorrow(t, s, pool)
	go func() { _, _ = s.Borrow(t.Context(), pool, WithFixedTTL(time.Minute), WithWait(time.Minute)) }()
	eventually(t, "a borrower waits", func() bool {
		state, err := s.Inspect(t.Context(), pool)
		return err == nil && state.Waiting == 1
	})
	found := everything(t, srv.Connect())
	if len(found) < 4 {
		t.Fatalf("%d entries", len(found))
	}
	for _, m := range found {
		all := m.Key + string(m.Data)
		for _, values := range m.Header {
			all += strings.Join(values, "")
		}
		for _, secret := range []string{pool.String(), l.ID().String()} {
			for _, form := range []string{secret, strings.ReplaceAll(secret, "-", "")} {
				if strings.Contains(all, form) {
					t.Errorf("a secret stands in %s", all)
				}
			}
		}
	}
}

func slotKey(pool uuid.UUID, position int) entry.Key {
	return entry.Key{Kind: entry.Slot, Pool: poolHash(pool), N: position}
}

// The tickets from before a restart do not delay later borrowers.
func TestSole(t *testing.T) {
	dir := t.TempDir()
	srv := natstest.Start(t, dir)
	nc := srv.Connect()
	s, err := Open(t.Context(), nc, Config{Logger: logtest.Logger(), Sole: true})
	natstest.Must(t, err)
	pool := newPool(t, s, 1)
	l := mustBorrow(t, s, pool)
	for range 5 {
		go func() { _, _ = s.Borrow(context.Background(), pool, WithFixedTTL(time.Minute), WithWait(time.Minute)) }()
	}
	eventually(t, "they wait", func() bool {
		state, err := s.Inspect(t.Context(), pool)
		return err == nil && state.Waiting == 5
	})
	nc.Close() // the peer is dead for all others
	again := openPeer(t, srv.Connect(), Config{Sole: true})
	eventually(t, "the line is empty", func() bool {
		state, err := again.Inspect(t.Context(), pool)
		return err == nil && state == State{Count: 1, InUse: 1}
	})
	mustReturn(t, again, pool, l)
	mustBorrow(t, again, pool)
	_ = s.Close(context.Background())
}
