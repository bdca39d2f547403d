package cosmo

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

func newTestLimiter(t *testing.T, nc *nats.Conn) *Limiter {
	t.Helper()
	l, err := New(t.Context(), nc, Config{})
	natstest.Must(t, err)
	return l
}

func mustAcquire(t *testing.T, l *Limiter, key, jid string, limit int, duration time.Duration) Slot {
	t.Helper()
	slot, err := l.Acquire(t.Context(), key, jid, limit, duration)
	natstest.Must(t, err)
	return slot
}

func wantNoSlot(t *testing.T, l *Limiter, key string, limit int) {
	t.Helper()
	if slot, err := l.Acquire(t.Context(), key, "late", limit, time.Minute); !errors.Is(err, kvslots.ErrNoSlot) {
		t.Fatalf("got %v and %v, want kvslots.ErrNoSlot", slot, err)
	}
}

func TestLimiter(t *testing.T) {
	nc := kvslotstest.Start(t, "").Connect()
	l := newTestLimiter(t, nc)
	first := mustAcquire(t, l, "mail", "job1", 2, time.Minute)
	second := mustAcquire(t, l, "mail", "job2", 2, time.Minute)
	if first.Key != "mail/0" || second.Key != "mail/1" || second.Number != 1 {
		t.Errorf("got %v and %v", first, second)
	}
	wantNoSlot(t, l, "mail", 2)
	mustAcquire(t, l, "print", "job3", 1, time.Minute) // another key is another limit

	if slot, jid, err := l.Holder(t.Context(), "mail/1"); slot != second || jid != "job2" || err != nil {
		t.Errorf("the holder is %v, %q, %v", slot, jid, err)
	}
	for _, want := range []bool{true, false} {
		if released, err := l.Release(t.Context(), first); released != want || err != nil {
			t.Errorf("released: %v, %v; want %v", released, err, want)
		}
	}
	if _, _, err := l.Holder(t.Context(), "mail/0"); !errors.Is(err, kvslots.ErrNotHeld) {
		t.Errorf("the holder of a free slot: %v", err)
	}
	if again := mustAcquire(t, l, "mail", "job4", 2, time.Minute); again.Key != "mail/0" || again.Revision <= first.Revision {
		t.Errorf("got %v after %v", again, first)
	}
}

func TestLimiterWritesWhatCosmoWrites(t *testing.T) {
	nc := kvslotstest.Start(t, "").Connect()
	l := newTestLimiter(t, nc)
	mustAcquire(t, l, "jobs.mail/eu", "0c2f", 1, 1500*time.Millisecond)
	stream, err := l.js.Stream(t.Context(), "KV_cosmo_jobs_limits")
	natstest.Must(t, err)
	m, err := stream.GetLastMsgForSubject(t.Context(), "$KV.cosmo_jobs_limits.jobs.mail/eu/0")
	natstest.Must(t, err)
	if string(m.Data) != "0c2f" || m.Header.Get(entry.HeaderTTL) != "2s" || m.Header.Get(entry.HeaderExpected) != "0" {
		t.Errorf("wrote %q with %v", m.Data, m.Header)
	}
}

func TestLimiterArguments(t *testing.T) {
	l := newTestLimiter(t, kvslotstest.Start(t, "").Connect())
	for _, c := range []struct {
		name, key, jid string
		limit          int
		duration       time.Duration
		field          string // "" if there is no error
	}{
		{"shortest", "k", "j", 1, time.Second, ""},
		{"longest", strings.Repeat("k", MaxKey), strings.Repeat("j", MaxJobID), MaxLimit, MaxDuration, ""},
		{"characters of KV keys", "Az09-/_=.x", "ü \n", 1, time.Second, ""},
		{"other characters", "Zürich+~(),%#$*>\x01", "j", 1, time.Second, ""},
		{"no key", "", "j", 1, time.Second, ""},
		{"dot last", "k.", "j", 1, time.Second, ""},
		{"wildcard", "k.*.k", "j", 1, time.Second, "key"},
		{"wildcard alone", "*", "j", 1, time.Second, "key"},
		{"full wildcard", "k.>", "j", 1, time.Second, "key"},
		{"space", "k k", "j", 1, time.Second, "key"},
		{"line break", "k\n", "j", 1, time.Second, "key"},
		{"vertical tab", "k\v", "j", 1, time.Second, "key"},
		{"DEL", "k\x7f", "j", 1, time.Second, "key"},
		{"NUL", "k\x00", "j", 1, time.Second, "key"},
		{"no UTF-8", "k\xff", "j", 1, time.Second, "key"},
		{"empty token", "k..k", "j", 1, time.Second, "key"},
		{"dot first", ".k", "j", 1, time.Second, "key"},
		{"dot alone", ".", "j", 1, time.Second, "key"},
		{"key too long", strings.Repeat("k", MaxKey+1), "j", 1, time.Second, "key"},
		{"no jid", "k", "", 1, time.Second, "jid"},
		{"jid too long", "k", strings.Repeat("j", MaxJobID+1), 1, time.Second, "jid"},
		{"jid no text", "k", "\xff", 1, time.Second, "jid"},
		{"limit 0", "k", "j", 0, time.Second, "limit"},
		{"limit too high", "k", "j", MaxLimit + 1, time.Second, "limit"},
		{"too short", "k", "j", 1, 999 * time.Millisecond, "duration"},
		{"too long", "k", "j", 1, MaxDuration + 1, "duration"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := l.Acquire(t.Context(), c.key, c.jid, c.limit, c.duration)
			wrong, ok := errors.AsType[*kvslots.RangeError](err)
			if c.field == "" && ok || c.field != "" && (!ok || wrong.Field != c.field) {
				t.Errorf("got %v, want an error about %q", err, c.field)
			}
		})
	}
	for _, key := range []string{"", "mail", "mail/", "mail/x", "mail/01", "mail/-1", "*/0", "mail.>/0", "a b/0", "mail/10000"} {
		if _, _, err := l.Holder(t.Context(), key); err == nil || errors.Is(err, kvslots.ErrNotHeld) {
			t.Errorf("slot key %q: %v", key, err)
		}
		if _, err := l.Release(t.Context(), Slot{Key: key, Revision: 1}); err == nil {
			t.Errorf("slot key %q was released", key)
		}
	}
	if _, err := l.Release(t.Context(), Slot{Key: "mail/0"}); err == nil {
		t.Error("released without a revision")
	}
}

// The TTL frees a slot, and a late release does not free the slot of the next holder.
func TestLimiterExpiry(t *testing.T) {
	l := newTestLimiter(t, kvslotstest.Start(t, "").Connect())
	began := time.Now()
	slow := mustAcquire(t, l, "mail", "slow", 1, time.Second)
	next := acquireSoon(t, l, "mail", "next", 1)
	if held := time.Since(began); held < time.Second {
		t.Errorf("the slot was free after %v", held)
	}
	if released, err := l.Release(t.Context(), slow); released || err != nil {
		t.Errorf("the late release: %v, %v", released, err)
	}
	if now, jid, err := l.Holder(t.Context(), "mail/0"); now != next || jid != "next" || err != nil {
		t.Errorf("the holder is %v, %q, %v; want %v", now, jid, err, next)
	}
}

// acquireSoon repeats Acquire until it succeeds.
func acquireSoon(t *testing.T, l *Limiter, key, jid string, limit int) (slot Slot) {
	t.Helper()
	kvslotstest.Eventually(t, "a free slot", func() bool {
		var err error
		if slot, err = l.Acquire(t.Context(), key, jid, limit, time.Minute); err != nil && !errors.Is(err, kvslots.ErrNoSlot) {
			t.Fatal(err)
		}
		return err == nil
	})
	return slot
}

// New must create the bucket with the configuration that Cosmo sends.
func TestLimiterCreatesCosmosBucket(t *testing.T) {
	cosmos := kvslotstest.Start(t, "").Connect()
	reply, err := cosmos.Request("$JS.API.STREAM.CREATE.KV_cosmo_jobs_limits", []byte(`{"name":"KV_cosmo_jobs_limits",
		"subjects":["$KV.cosmo_jobs_limits.>"],"storage":"file","allow_direct":true,"allow_msg_ttl":true,
		"allow_rollup_hdrs":true,"max_msgs_per_subject":1}`), 5*time.Second)
	natstest.Must(t, err)
	ours := kvslotstest.Start(t, "").Connect()
	newTestLimiter(t, ours)
	info, err := ours.RequestWithContext(t.Context(), "$JS.API.STREAM.INFO.KV_cosmo_jobs_limits", nil)
	natstest.Must(t, err)
	if got, want := streamConfigOf(t, info), streamConfigOf(t, reply); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	newTestLimiter(t, cosmos) // accepts Cosmo's bucket
}

// streamConfigOf returns the configuration in an answer, with sorted keys.
func streamConfigOf(t *testing.T, m *nats.Msg) string {
	t.Helper()
	var answer struct {
		Config map[string]any `json:"config"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil || answer.Config == nil {
		t.Fatalf("%s: %v", m.Data, err)
	}
	delete(answer.Config, "metadata") // the server's version
	text, err := json.Marshal(answer.Config)
	natstest.Must(t, err)
	return string(text)
}

// Earlier versions of Cosmo released slots with a delete marker, with which every
// compare-and-swap on revision 0 fails.
func TestLimiterIgnoresMarkers(t *testing.T) {
	nc := kvslotstest.Start(t, "").Connect()
	l := newTestLimiter(t, nc)
	js, err := jetstream.New(nc)
	natstest.Must(t, err)
	kv, err := js.KeyValue(t.Context(), DefaultBucket)
	natstest.Must(t, err)
	mustAcquire(t, l, "mail", "stays", 3, time.Minute)
	for _, remove := range []func(ctx context.Context, key string, opts ...jetstream.KVDeleteOpt) error{kv.Delete, kv.Purge} {
		slot := mustAcquire(t, l, "mail", "ruby", 3, time.Minute)
		natstest.Must(t, remove(t.Context(), slot.Key))
	}
	mustAcquire(t, l, "mail", "a", 3, time.Minute)
	mustAcquire(t, l, "mail", "b", 3, time.Minute)
	wantNoSlot(t, l, "mail", 3)
}

// A limit marker does not hold a slot, either.
func TestLimiterOnABucketWithLimitMarkers(t *testing.T) {
	js, err := jetstream.New(kvslotstest.Start(t, "").Connect())
	natstest.Must(t, err)
	config := bucketConfig(Config{Bucket: DefaultBucket, Replicas: 1})
	config.SubjectDeleteMarkerTTL = time.Hour
	natstest.Must(t, natstest.Err(js.CreateStream(t.Context(), config)))
	l := newTestLimiter(t, js.Conn())
	mustAcquire(t, l, "mail", "first", 1, time.Second)
	acquireSoon(t, l, "mail", "second", 1)
	wantNoSlot(t, l, "mail", 1)
}

// lossy is a connection that can lose the server's answers.
type lossy struct {
	net.Conn
	deaf chan struct{} // a value in it makes the connection lose the next answer
	lost chan struct{}
}

func dialLossy(t *testing.T, srv *kvslotstest.Server) (*nats.Conn, *lossy) {
	t.Helper()
	l := &lossy{deaf: make(chan struct{}, 1), lost: make(chan struct{}, 1)}
	nc, err := nats.Connect(srv.ClientURL(), nats.SetCustomDialer(l))
	natstest.Must(t, err)
	t.Cleanup(nc.Close)
	return nc, l
}

func (l *lossy) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	l.Conn = conn
	return l, err
}

func (l *lossy) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	select {
	case <-l.deaf:
		l.lost <- struct{}{}
		return l.Read(b)
	default:
		return n, err
	}
}

// A claim that was written but not acknowledged is recognized as the Limiter's own,
// whether or not the server still remembers its message id.
func TestLimiterUnknownOutcome(t *testing.T) {
	for _, window := range []time.Duration{2 * time.Minute, 100 * time.Millisecond} {
		t.Run(window.String(), func(t *testing.T) {
			srv := kvslotstest.Start(t, "")
			nc, conn := dialLossy(t, srv)
			l := newTestLimiter(t, nc)
			config := bucketConfig(Config{Bucket: DefaultBucket, Replicas: 1})
			config.Duplicates = window
			natstest.Must(t, natstest.Err(l.js.UpdateStream(t.Context(), config)))
			mustAcquire(t, l, "warm", "up", 1, time.Minute) // the inbox is subscribed
			conn.deaf <- struct{}{}
			slot := mustAcquire(t, l, "mail", "job", 3, time.Minute)
			<-conn.lost
			held, jid, err := l.Holder(t.Context(), "mail/0")
			if err != nil || held != slot || jid != "job" {
				t.Errorf("acquired %v, but the holder is %v, %q, %v", slot, held, jid, err)
			}
		})
	}
}

// Acquire withdraws a claim with unknown outcome if its context ends.
func TestLimiterWithdraws(t *testing.T) {
	srv := kvslotstest.Start(t, "")
	nc, conn := dialLossy(t, srv)
	l := newTestLimiter(t, nc)
	mustAcquire(t, l, "warm", "up", 1, time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	conn.deaf <- struct{}{}
	go func() {
		<-conn.lost
		cancel()
	}()
	if slot, err := l.Acquire(ctx, "mail", "job", 3, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v", slot, err)
	}
	if held, jid, err := l.Holder(t.Context(), "mail/0"); !errors.Is(err, kvslots.ErrNotHeld) {
		t.Errorf("still held: %v, %q, %v", held, jid, err)
	}
}

func TestLimiterReportsFailures(t *testing.T) {
	srv := kvslotstest.Start(t, "")
	l := newTestLimiter(t, srv.Connect())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Acquire(ctx, "mail", "job", 1, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	slot := mustAcquire(t, l, "mail", "job", 1, time.Minute)
	l.js.Conn().Close()
	if _, err := l.Acquire(t.Context(), "mail", "job", 1, time.Minute); !errors.Is(err, kvslots.ErrUnavailable) {
		t.Errorf("without a connection: %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := l.Release(ctx, slot); err == nil {
		t.Error("released without a connection")
	}
}

// Several workers may call New at once.
func TestLimiterBucketIsCreatedOnce(t *testing.T) {
	srv := kvslotstest.Start(t, "")
	var workers sync.WaitGroup
	for n := range 8 {
		nc := srv.Connect()
		workers.Go(func() {
			l, err := New(t.Context(), nc, Config{})
			if err == nil {
				_, err = l.Acquire(t.Context(), "mail", strconv.Itoa(n), 8, time.Minute)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	workers.Wait()
}

// Release succeeds even if the context has ended, as in a deferred call.
func TestLimiterReleasesWithAnyContext(t *testing.T) {
	l := newTestLimiter(t, kvslotstest.Start(t, "").Connect())
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, stop := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer stop()
	for why, ended := range map[string]context.Context{"cancelled": cancelled, "expired": expired} {
		t.Run(why, func(t *testing.T) {
			slot := mustAcquire(t, l, why, "job", 1, time.Minute)
			for _, want := range []bool{true, false} {
				if released, err := l.Release(ended, slot); released != want || err != nil {
					t.Errorf("got %v, %v; want %v", released, err, want)
				}
			}
		})
	}
}
