//go:build unix

package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/natsembed"
)

// usage is the processor time and memory that the process has used up to a time.
type usage struct {
	at   time.Time
	cpu  time.Duration
	heap uint64 // in use, after a collection
}

func used(tb testing.TB) usage {
	tb.Helper()
	runtime.GC()
	runtime.GC() // frees objects that finalizers have released
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		tb.Fatal(err)
	}
	return usage{time.Now(), time.Duration(r.Utime.Nano() + r.Stime.Nano()), m.HeapInuse + m.StackInuse}
}

// report logs the usage since u, in total and for each of n sessions.
func (u usage) report(tb testing.TB, what string, n int) usage {
	tb.Helper()
	now := used(tb)
	took, cpu := now.at.Sub(u.at), now.cpu-u.cpu
	grown := int64(now.heap) - int64(u.heap)
	tb.Logf("%-28s %7.2f s, %5.2f CPU s a second, %+7.1f MB in use, %+6d bytes each of %d; %d goroutines",
		what, took.Seconds(), cpu.Seconds()/took.Seconds(), float64(grown)/1e6, grown/int64(n), n, runtime.NumGoroutine())
	return now
}

// TestSoakSessions runs 10,000 sessions that ping, and 10,000 that wait in 100 lines. It
// logs their usage, and checks that nothing remains after the sessions have ended.
func TestSoakSessions(t *testing.T) {
	if os.Getenv("KVSLOTS_SOAK") == "" {
		t.Skip("make soak")
	}
	soakSessions(t, 10_000, 100, 10*time.Second)
}

// TestSessions is TestSoakSessions with fewer sessions.
func TestSessions(t *testing.T) { soakSessions(t, 200, 10, 200*time.Millisecond) }

func soakSessions(t *testing.T, n, keys int, cadence time.Duration) {
	ctx := t.Context()
	dir := t.TempDir()
	srv, err := natsembed.Start(ctx, natsembed.Config{Logger: logtest.Logger(), DataDir: dir, Sync: natsembed.SyncInterval})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = srv.Close()
		logtest.SearchDir(dir)
	}()
	nc, err := srv.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	store, err := kvslots.Open(ctx, nc, kvslots.Config{Logger: logtest.Logger(), MaxWait: time.Hour, MaxTTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close(context.Background()) }()
	start := used(t)

	sessions := make([]string, n)
	holders := make([]string, keys)
	each(t, n, func(i int) (err error) {
		sessions[i], _, err = store.CreateSession(ctx, kvslots.WithIdle(2*cadence+20*time.Second))
		return err
	})
	now := start.report(t, "sessions created", n)

	pinging(t, store, sessions, cadence)
	now.report(t, "pinged, each once", n)

	key := func(i int) kvslots.Resource { return kvslots.Lock(fmt.Sprint("key", i%keys)) }
	held := make([]kvslots.Grant, keys)
	each(t, keys, func(i int) (err error) {
		if holders[i], _, err = store.CreateSession(ctx, kvslots.WithIdle(time.Hour)); err == nil {
			held[i], err = store.Acquire(ctx, holders[i], key(i), time.Hour, 0)
		}
		return err
	})
	now = used(t)

	// Half of the sessions wait in Acquire, half in Wait after Enqueue.
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if err := waitAndPass(ctx, store, sessions[i], key(i), i%2 == 0); err != nil {
				t.Error(err)
			}
		})
	}
	for waitersOf(t, store) < n {
		time.Sleep(20 * time.Millisecond)
	}
	now = now.report(t, "all stand in line", n)
	time.Sleep(cadence / 2)
	now = now.report(t, "waiting", n)
	each(t, keys, func(i int) error { return store.Release(ctx, holders[i], key(i), held[i].Token) })
	all.Wait()
	now = now.report(t, "each served once", n)

	each(t, n, func(i int) error { return store.EndSession(ctx, sessions[i]) })
	each(t, keys, func(i int) error { return store.EndSession(ctx, holders[i]) })
	now.report(t, "all have left", n)
	start.report(t, "remains, with the markers", n) // a marker lives as long as the entry that it replaces would have

	stats, err := store.Stats(ctx)
	if err != nil || stats.Sessions != 0 || len(stats.Names) != 0 {
		t.Errorf("%d sessions, %d names, %v", stats.Sessions, len(stats.Names), err)
	}
	live, markers := entries(t, srv)
	t.Logf("%d entries and %d markers in the bucket", live, markers)
	if live > 1+len(stats.Idle) { // the peer's presence, and the names, which a peer closes after a minute
		t.Errorf("%d entries are left in the bucket", live)
	}
}

// pinging pings every session once, spread evenly over cadence.
func pinging(t *testing.T, store *kvslots.Store, sessions []string, cadence time.Duration) {
	t.Helper()
	var took recorder
	var wg sync.WaitGroup
	began := time.Now()
	for i, id := range sessions {
		time.Sleep(time.Until(began.Add(cadence * time.Duration(i) / time.Duration(len(sessions)))))
		wg.Go(func() {
			asked := time.Now()
			if err := store.Ping(t.Context(), id); err != nil {
				t.Error(err)
			}
			took.record(i, time.Since(asked))
		})
	}
	wg.Wait()
	all := took.histogram()
	t.Logf("%.0f pings a second: p50 %v, p99 %v", float64(len(sessions))/time.Since(began).Seconds(), percentile(all, 50), percentile(all, 99))
}

// waitAndPass waits for a lock, in Acquire or in Wait, and releases it.
func waitAndPass(ctx context.Context, store *kvslots.Store, session string, r kvslots.Resource, acquires bool) error {
	const ttl, wait = time.Hour, time.Hour
	var g kvslots.Grant
	var err error
	if acquires {
		g, err = store.Acquire(ctx, session, r, ttl, wait)
	} else {
		var acquired bool
		if _, acquired, err = store.Enqueue(ctx, session, r, ttl); err == nil && acquired {
			err = errors.New("acquired a lock that another session holds")
		}
		if err == nil {
			g, err = store.Wait(ctx, session, r, wait)
		}
	}
	if err != nil {
		return err
	}
	return store.Release(ctx, session, r, g.Token)
}

func waitersOf(t *testing.T, store *kvslots.Store) (n int) {
	t.Helper()
	stats, err := store.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range stats.Names {
		n += len(name.Waiters)
	}
	return n
}

// each calls a function n times, a hundred calls at once.
func each(t *testing.T, n int, do func(i int) error) {
	t.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// entries counts the entries in the bucket.
func entries(t *testing.T, srv *natsembed.Server) (live, markers int) {
	t.Helper()
	nc, err := srv.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(t.Context(), "kvslots")
	if err != nil {
		t.Fatal(err)
	}
	w, err := kv.WatchAll(t.Context(), jetstream.MetaOnly())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Stop() }()
	for e := range w.Updates() {
		switch {
		case e == nil:
			return live, markers
		case e.Operation() == jetstream.KeyValuePut:
			live++
		default:
			markers++
		}
	}
	return live, markers
}
