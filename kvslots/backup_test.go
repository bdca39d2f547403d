package kvslots

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/backup"
	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

func mustBackup(t testing.TB, nc *nats.Conn) []byte {
	t.Helper()
	var file bytes.Buffer
	b, err := backup.Dump(t.Context(), nc)
	if err == nil {
		err = backup.Write(&file, b)
	}
	natstest.Must(t, err)
	return file.Bytes()
}

// restore is natsstore.Restore, which tests of this package cannot import.
func restore(t testing.TB, nc *nats.Conn, file []byte, o backup.Options) (backup.Summary, error) {
	b, err := backup.Read(bytes.NewReader(file))
	if err != nil {
		return backup.Summary{}, err
	}
	return backup.Restore(t.Context(), nc, b, o)
}

func mustRestore(t testing.TB, nc *nats.Conn, file []byte, o backup.Options) backup.Summary {
	t.Helper()
	restored, err := restore(t, nc, file, o)
	natstest.Must(t, err)
	return restored
}

// untilServed repeats a call while the store is unavailable because it rebuilds its view.
func untilServed[T any](t testing.TB, call func() (T, error)) T {
	t.Helper()
	for {
		got, err := call()
		if err == nil {
			return got
		}
		if !errors.Is(err, ErrUnavailable) || t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}

// filled is a bucket with entries of every kind that a backup contains.
type filled struct {
	pool, deleted uuid.UUID
	held, renewed *Lease
	returned      *Lease
	session       string
	lock          Resource
	grant         Grant
	enqueued      Resource
	owned         *OwnedLock
	idle          string // a session without leases
}

func fillBucket(t testing.TB, s *Store) filled {
	t.Helper()
	f := filled{
		pool: newPool(t, s, 4), deleted: newPool(t, s, 1),
		lock: Lock("a-lock"), enqueued: Semaphore("a-semaphore", 2),
	}
	fatal := func(err error) {
		t.Helper()
		natstest.Must(t, err)
	}
	f.held, f.renewed, f.returned = mustBorrow(t, s, f.pool), mustBorrow(t, s, f.pool), mustBorrow(t, s, f.pool)
	mustReturn(t, s, f.pool, f.returned)
	mustBorrow(t, s, f.deleted)
	fatal(s.Delete(t.Context(), f.deleted))
	_, err := s.Renew(t.Context(), f.pool, f.renewed.ID(), 10*time.Minute)
	fatal(err)
	f.session, _, err = s.CreateSession(t.Context(), WithIdle(time.Minute), WithOrigin("origin"))
	fatal(err)
	f.idle, _, err = s.CreateSession(t.Context(), WithIdle(time.Minute))
	fatal(err)
	f.grant, err = s.Acquire(t.Context(), f.session, f.lock, WithTTL(time.Minute), WithWait(0))
	fatal(err)
	_, acquired, err := s.Enqueue(t.Context(), f.session, f.enqueued, WithTTL(time.Minute))
	if err != nil || !acquired {
		t.Fatal(acquired, err)
	}
	f.owned, err = s.LockOwned(t.Context(), "owned", "me", WithTTL(time.Minute), WithWait(0))
	fatal(err)
	return f
}

// check checks that a store serves what a backup of f was restored to.
func (f filled) check(t testing.TB, s *Store) {
	t.Helper()
	untilServed(t, func() (State, error) { return s.Inspect(t.Context(), f.pool) })
	wantState(t, s, f.pool, State{Count: 4, InUse: 2, Available: 2})
	if _, err := s.Inspect(t.Context(), f.deleted); !errors.Is(err, ErrNoPool) {
		t.Errorf("the deleted pool: %v", err)
	}
	highest := max(f.held.Fence(), f.renewed.Fence(), f.returned.Fence(), f.grant.Fence)
	if l := mustBorrow(t, s, f.pool); l.Position() != 2 || l.Fence() <= highest {
		t.Errorf("lent position %d with fence %d; the highest was %d", l.Position(), l.Fence(), highest)
	}
	renewed, err := s.Renew(t.Context(), f.pool, f.held.ID(), time.Minute)
	if err != nil || renewed.Fence() != f.held.Fence() || renewed.Position() != 0 {
		t.Errorf("renewed: %+v, %v; its fence was %d", renewed, err, f.held.Fence())
	}
	mustReturn(t, s, f.pool, f.held)
	mustReturn(t, s, f.pool, f.renewed)
	if ok, err := s.Return(t.Context(), f.pool, f.returned.ID()); ok || err != nil {
		t.Errorf("returned twice: %v, %v", ok, err)
	}
	for _, session := range []string{f.session, f.idle} {
		if err := s.Ping(t.Context(), session); err != nil {
			t.Errorf("session: %v", err)
		}
	}
	if _, err := s.Acquire(t.Context(), f.idle, f.lock, WithTTL(time.Minute), WithWait(0)); !errors.Is(err, ErrNoSlot) {
		t.Errorf("the lock is held: %v", err)
	}
	if _, err := s.RenewGrant(t.Context(), f.session, f.lock, f.grant.Token, time.Minute); err != nil {
		t.Errorf("extend: %v", err)
	}
	if err := s.Release(t.Context(), f.session, f.lock, f.grant.Token); err != nil {
		t.Errorf("release: %v", err)
	}
	if g, err := s.Wait(t.Context(), f.session, f.enqueued, 0); err != nil || g.Fence <= f.grant.Fence {
		t.Errorf("wait for what was enqueued for: %+v, %v", g, err)
	}
	if ok, err := s.UnlockOwned(t.Context(), f.owned); !ok || err != nil {
		t.Errorf("unlock: %v, %v", ok, err)
	}
}

// A backup taken under load is restored into a fresh server, and into its own server. Every lease, lock and session survives, new fences are above
// all earlier ones, and a held slot is never lent to another borrower.
func TestRestoreOfABusyBucket(t *testing.T) {
	srv := natstest.Start(t, "")
	peers := openPeers(t, srv, 2)
	f := fillBucket(t, peers[0])
	busy := newPool(t, peers[0], 3)
	held := mustBorrow(t, peers[0], busy) // workers hold theirs for 5 s at most
	load, stop := context.WithCancel(t.Context())
	defer stop()
	var workers sync.WaitGroup
	var highest atomic.Uint64 // the highest fence of this server
	for i := range 8 {
		s := peers[i%2]
		workers.Go(func() {
			for load.Err() == nil {
				l, err := s.Borrow(load, busy, WithFixedTTL(5*time.Second), WithWait(time.Second))
				if err != nil {
					continue
				}
				if l.Position() == held.Position() {
					t.Errorf("the held slot was lent again, with the fence %d", l.Fence())
				}
				for high := highest.Load(); high < l.Fence() && !highest.CompareAndSwap(high, l.Fence()); high = highest.Load() {
				}
				_, _ = s.Return(load, busy, l.ID())
			}
		})
	}
	var file []byte
	for range 5 {
		file = mustBackup(t, srv.Connect())
	}
	for _, secret := range []string{f.pool.String(), f.held.ID().String(), f.session, f.grant.Token} {
		if bytes.Contains(file, []byte(secret)) {
			t.Errorf("%s is in the backup", secret)
		}
	}

	_, err := restore(t, srv.Connect(), file, backup.Options{Replace: true})
	wantErr(t, err, backup.ErrInUse)
	wantState(t, peers[1], f.pool, State{Count: 4, InUse: 2, Available: 2})
	stop()
	workers.Wait()
	for _, s := range peers {
		natstest.Must(t, s.Close(t.Context()))
	}
	_, err = restore(t, srv.Connect(), file, backup.Options{})
	wantErr(t, err, backup.ErrNotEmpty)
	mustRestore(t, srv.Connect(), file, backup.Options{Replace: true})
	again := openPeers(t, srv, 1)[0]
	f.check(t, again)
	mustReturn(t, again, busy, held)

	fresh := natstest.Start(t, "")
	drawn := openPeers(t, fresh, 1)[0]
	natstest.Must(t, drawn.Close(t.Context()))
	restored := mustRestore(t, fresh.Connect(), file, backup.Options{})
	others := openPeers(t, fresh, 2)
	if restored.Pools < 4 || restored.Leases < 6 || restored.Sessions != 2 {
		t.Errorf("restored %+v", restored)
	}
	f.check(t, others[1])
	if id := others[1].ID(); id == drawn.ID() || id != peers[0].ID() {
		t.Errorf("the bucket's id is %s; it was %s, and that of the backup is %s", id, drawn.ID(), peers[0].ID())
	}
	l := untilServed(t, func() (*Lease, error) {
		return others[0].Borrow(t.Context(), f.pool, WithFixedTTL(time.Minute), WithWait(0))
	})
	if l.Fence() <= highest.Load() {
		t.Errorf("fence %d after %d", l.Fence(), highest.Load())
	}
}

// A lease ends when it would have ended without the restore.
func TestRestoredLeaseEnds(t *testing.T) {
	besideOthers(t)
	srv := natstest.Start(t, "")
	s := openPeers(t, srv, 1)[0]
	pool := newPool(t, s, 1)
	asked := time.Now()
	lease, err := s.Borrow(t.Context(), pool, WithFixedTTL(5*time.Second), WithWait(0))
	natstest.Must(t, err)
	answered := time.Now()
	file := mustBackup(t, srv.Connect())
	natstest.Must(t, s.Close(t.Context()))
	begun := time.Now()
	mustRestore(t, srv.Connect(), file, backup.Options{Replace: true})
	took := time.Since(begun)
	stored := storedSlots(t, srv.Connect())
	if len(stored) != 1 {
		t.Fatalf("%d slots are stored", len(stored))
	}
	// This machine's clock is also the server's. The end was counted from the write of the
	// claim, and moves by the time that the restored entry takes to reach the stream.
	end := stored[0].Entry.Time.Add(stored[0].Entry.Slot.TTL.Duration())
	if late := end.Sub(lease.ExpiresAt()); late > took || late < asked.Sub(answered)-2*time.Millisecond {
		t.Errorf("the lease ends %v after the time that its holder knows; restored in %v", late, took)
	}
	fresh := openPeers(t, srv, 1)[0]
	next, err := fresh.Borrow(t.Context(), pool, WithFixedTTL(time.Minute), WithWait(time.Minute))
	if err != nil || next.Fence() <= lease.Fence() || time.Now().Before(lease.ExpiresAt()) {
		t.Errorf("lent %+v, %v at %v; the lease ends at %v", next, err, time.Now(), lease.ExpiresAt())
	}
}

func storedSlots(t testing.TB, nc *nats.Conn) (slots []fetched) {
	t.Helper()
	for _, e := range everything(t, nc) {
		if strings.Contains(e.Key, ".s.") && !e.Entry.Marker {
			slots = append(slots, e)
		}
	}
	return slots
}

// The same on a cluster with a replicated bucket.
func TestRestoreReplicated(t *testing.T) {
	cluster := natstest.StartCluster(t)
	s := openPeer(t, cluster.Connect(), Config{Replicas: 3})
	f := fillBucket(t, s)
	file := mustBackup(t, cluster.Connect())
	natstest.Must(t, s.Close(t.Context()))
	mustRestore(t, cluster.Connect(), file, backup.Options{Replace: true})
	f.check(t, openPeer(t, cluster.Connect(), Config{Replicas: 3}))
	js := natstest.JetStream(t, cluster.Connect())
	if stream, err := js.Stream(t.Context(), bucket.StreamName); err != nil || stream.CachedInfo().Config.Replicas != 3 {
		t.Errorf("the new stream: %+v, %v", stream.CachedInfo(), err)
	}
}

// Restoring an incomplete file changes nothing.
func TestRestoreRefusesDamage(t *testing.T) {
	srv := natstest.Start(t, "")
	s := openPeers(t, srv, 1)[0]
	f := fillBucket(t, s)
	file := mustBackup(t, srv.Connect())
	lines := bytes.SplitAfter(file, []byte("\n"))
	changed := bytes.Replace(file, []byte(`"count":4`), []byte(`"count":5`), 1)
	for name, damaged := range map[string][]byte{
		"empty":            nil,
		"another file":     []byte("{}\n{}\n{}\n"),
		"half":             file[:len(file)/2],
		"without its end":  file[:len(file)-1],
		"without trailer":  bytes.Join(lines[:len(lines)-2], nil),
		"without a line":   append(bytes.Clone(lines[0]), bytes.Join(lines[2:], nil)...),
		"a changed count":  changed,
		"a later version":  bytes.Replace(file, []byte(`"kvslots_backup":1`), []byte(`"kvslots_backup":2`), 1),
		"something behind": append(bytes.Clone(file), 'x'),
	} {
		_, err := restore(t, srv.Connect(), damaged, backup.Options{Replace: true})
		if err == nil || name != "a later version" && !errors.Is(err, backup.ErrCorruptBackup) {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantState(t, s, f.pool, State{Count: 4, InUse: 2, Available: 2})
	mustReturn(t, s, f.pool, f.held)
}
