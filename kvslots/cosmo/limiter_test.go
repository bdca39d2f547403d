package cosmo

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/natsstore"
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

func wantNoSlot(t *testing.T, w limitWorker, key string, limit int) {
	t.Helper()
	if slot, err := w.Acquire(t.Context(), key, "late", limit, time.Minute); !errors.Is(err, kvslots.ErrNoSlot) {
		t.Fatalf("got %v and %v, want kvslots.ErrNoSlot", slot, err)
	}
}

func wantHolder(t *testing.T, l *Limiter, slot Slot, jid string) {
	t.Helper()
	if held, err := l.Holder(t.Context(), slot.Key); err != nil || held.Slot != slot || held.JobID != jid {
		t.Errorf("the holder is %v, %v; want %v of %q", held, err, slot, jid)
	}
}

func TestLimiter(t *testing.T) {
	l := newTestLimiter(t, kvslotstest.Start(t, "").Connect())
	first := mustAcquire(t, l, "mail", "job1", 2, time.Minute)
	second := mustAcquire(t, l, "mail", "job2", 2, time.Minute)
	if first.Key != "mail/0" || second.Key != "mail/1" || second.Number != 1 {
		t.Errorf("got %v and %v", first, second)
	}
	wantNoSlot(t, l, "mail", 2)
	mustAcquire(t, l, "print", "job3", 1, time.Minute) // another key is another limit
	wantHolder(t, l, second, "job2")
	for range 2 {
		natstest.Must(t, l.Release(t.Context(), first))
	}
	if _, err := l.Holder(t.Context(), "mail/0"); !errors.Is(err, kvslots.ErrNotHeld) {
		t.Errorf("the holder of a free slot: %v", err)
	}
	again := mustAcquire(t, l, "mail", "job4", 2, time.Minute)
	if again.Key != "mail/0" || again.Revision <= first.Revision {
		t.Errorf("got %v after %v", again, first)
	}
	natstest.Must(t, l.Release(t.Context(), first)) // too late: it frees nothing
	wantHolder(t, l, again, "job4")
}

// A Limiter and workers that publish as Ruby's share limits. Each takes at once what the other has
// released, and over the marker that an earlier version of Cosmo, or a KV client, has left.
func TestLimiterSharesKeysWithRuby(t *testing.T) {
	nc := kvslotstest.Start(t, "").Connect()
	l, ruby := newTestLimiter(t, nc), plainWorker{nc}
	for _, key := range []string{"mail", "api-v1_job", "api-v1_job/42", "a.b=c", "", "mail/", "mail.", strings.Repeat("k", MaxKey)} {
		t.Run(key[:min(len(key), 20)], func(t *testing.T) {
			theirs, err := ruby.Acquire(t.Context(), key, "theirs", 2, time.Minute)
			natstest.Must(t, err)
			ours := mustAcquire(t, l, key, "ours", 2, time.Minute)
			if theirs.Key != key+"/0" || ours.Key != key+"/1" {
				t.Errorf("got %q and %q", theirs.Key, ours.Key)
			}
			wantNoSlot(t, l, key, 2)
			wantNoSlot(t, ruby, key, 2)
			wantHolder(t, l, theirs, "theirs")
			natstest.Must(t, ruby.Release(t.Context(), theirs))
			ours2 := mustAcquire(t, l, key, "ours", 2, time.Minute)
			if ours2.Key != theirs.Key {
				t.Errorf("got %q", ours2.Key)
			}
			natstest.Must(t, l.Release(t.Context(), ours))
			again, err := ruby.Acquire(t.Context(), key, "theirs", 2, time.Minute)
			natstest.Must(t, err)
			natstest.Must(t, l.kv.Delete(t.Context(), again.Key))
			marked := mustAcquire(t, l, key, "ours", 2, time.Minute)
			if again.Key != ours.Key || marked.Key != ours.Key {
				t.Errorf("got %q and %q", again.Key, marked.Key)
			}
			natstest.Must(t, l.Release(t.Context(), marked))
			natstest.Must(t, l.Release(t.Context(), ours2))
		})
	}
}

// The purge of the KV client leaves a marker, over which a Ruby worker takes no slot. So Release
// does not use it.
func TestKVPurgeKeepsRubyOut(t *testing.T) {
	nc := kvslotstest.Start(t, "").Connect()
	l, ruby := newTestLimiter(t, nc), plainWorker{nc}
	slot := mustAcquire(t, l, "mail", "job", 1, time.Minute)
	natstest.Must(t, l.kv.Purge(t.Context(), slot.Key, jetstream.LastRevision(slot.Revision), jetstream.PurgeTTL(time.Hour)))
	wantNoSlot(t, ruby, "mail", 1)
	mustAcquire(t, l, "mail", "job", 1, time.Minute)
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
		{"no key", "", "j", 1, time.Second, ""},
		{"dot last", "k.", "j", 1, time.Second, ""},
		{"wildcard", "k.*.k", "j", 1, time.Second, "key"},
		{"full wildcard", "k.>", "j", 1, time.Second, "key"},
		{"space", "k k", "j", 1, time.Second, "key"},
		{"line break", "k\n", "j", 1, time.Second, "key"},
		{"letter beyond ASCII", "Zürich", "j", 1, time.Second, "key"},
		{"empty part", "k..k", "j", 1, time.Second, "key"},
		{"dot first", ".k", "j", 1, time.Second, "key"},
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
			if c.field == "" && err != nil && !errors.Is(err, kvslots.ErrNoSlot) || c.field != "" && (!ok || wrong.Field != c.field) {
				t.Errorf("got %v, want an error about %q", err, c.field)
			}
		})
	}
	for _, key := range []string{"", "mail", "mail/", "mail/x", "mail/01", "mail/-1", "*/0", "mail.>", "a b/0", "mail/1000"} {
		if _, err := l.Holder(t.Context(), key); err == nil || errors.Is(err, kvslots.ErrNotHeld) {
			t.Errorf("slot key %q: %v", key, err)
		}
		if err := l.Release(t.Context(), Slot{Key: key, Revision: 1}); err == nil {
			t.Errorf("slot key %q was released", key)
		}
	}
}

// The TTL, rounded up to whole seconds, frees a slot.
func TestLimiterExpiry(t *testing.T) {
	l := newTestLimiter(t, kvslotstest.Start(t, "").Connect())
	began := time.Now()
	slow := mustAcquire(t, l, "mail", "slow", 1, 1001*time.Millisecond)
	var next Slot
	kvslotstest.Eventually(t, "a free slot", func() (free bool) {
		var err error
		next, err = l.Acquire(t.Context(), "mail", "next", 1, time.Minute)
		return err == nil
	})
	if held := time.Since(began); held < 2*time.Second {
		t.Errorf("the slot was free after %v", held)
	}
	natstest.Must(t, l.Release(t.Context(), slow))
	wantHolder(t, l, next, "next")
}

// Held returns the acquisitions of all workers, and neither markers nor other entries.
func TestLimiterHeld(t *testing.T) {
	nc := kvslotstest.Start(t, "").Connect()
	l := newTestLimiter(t, nc)
	if all, err := l.Held(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("held in an empty bucket: %v, %v", all, err)
	}
	ours := mustAcquire(t, l, "mail", "ours", 2, time.Minute)
	marked := mustAcquire(t, l, "marked", "gone", 1, time.Minute)
	theirs, err := plainWorker{nc}.Acquire(t.Context(), "", "theirs", 1, time.Hour)
	natstest.Must(t, err)
	natstest.Must(t, l.kv.Delete(t.Context(), marked.Key))
	natstest.Must(t, natstest.Err(l.kv.PutString(t.Context(), "mail/x", "text")))
	all, err := l.Held(t.Context())
	if err != nil || len(all) != 2 || all[0].Slot != ours || all[0].JobID != "ours" || all[1].Slot != theirs || all[1].JobID != "theirs" {
		t.Errorf("held: %v, %v", all, err)
	}
	if since := time.Since(all[0].Acquired); since < 0 || since > time.Minute {
		t.Errorf("acquired %s ago", since)
	}
}

func TestLimiterReportsFailures(t *testing.T) {
	nc := kvslotstest.Start(t, "").Connect()
	l := newTestLimiter(t, nc)
	calls := func(ctx context.Context) []error {
		_, acquired := l.Acquire(ctx, "mail", "job", 1, time.Minute)
		_, holder := l.Holder(ctx, "mail/0")
		_, held := l.Held(ctx)
		return []error{acquired, holder, held}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for n, err := range calls(ctx) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("call %d with a context that has ended: %v", n, err)
		}
	}
	natstest.Must(t, l.Release(ctx, mustAcquire(t, l, "print", "job", 1, time.Minute))) // works all the same
	nc.Close()
	for n, err := range append(calls(t.Context()), l.Release(t.Context(), Slot{"mail/0", 0, 1})) {
		if !errors.Is(err, kvslots.ErrUnavailable) {
			t.Errorf("call %d without a connection: %v", n, err)
		}
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

// Buckets are refused in which slots cannot be acquired or released, or in which NATS
// could remove an entry before its duration ends.
func TestLimiterRefusesUnusableBuckets(t *testing.T) {
	js, err := jetstream.New(kvslotstest.Start(t, "").Connect())
	natstest.Must(t, err)
	natstest.Must(t, natstest.Err(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "source"})))
	for _, c := range []struct {
		name   string
		change func(*jetstream.StreamConfig)
		want   string // "" if the bucket is accepted
	}{
		{"no-ttl", func(c *jetstream.StreamConfig) { c.AllowMsgTTL = false }, "allow_msg_ttl is off"},
		{"no-purge", func(c *jetstream.StreamConfig) { c.DenyPurge, c.AllowRollup = true, false }, "deny_purge is on"},
		{"subjects", func(c *jetstream.StreamConfig) { c.Subjects = []string{"elsewhere.>"} }, "subjects are"},
		{"interest", func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy }, "retention is Interest, not limits"},
		{"work-queue", func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }, "retention is WorkQueue, not limits"},
		{"max-age", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, "max_age is 1h0m0s, not 0"},
		{"max-messages", func(c *jetstream.StreamConfig) { c.MaxMsgs = 100 }, "max_msgs is 100 and max_bytes is -1 with discard DiscardOld"},
		{"max-bytes", func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 }, "max_bytes is 1048576 with discard DiscardOld"},
		{"memory", func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, "storage is Memory, not file"},
		{"sources", func(c *jetstream.StreamConfig) { c.Sources = []*jetstream.StreamSource{{Name: "source"}} }, "has sources"},
		{"discard-new", func(c *jetstream.StreamConfig) {
			c.MaxMsgs, c.MaxBytes, c.Discard = 100, 1<<20, jetstream.DiscardNew
		}, ""},
		{"history", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 5 }, ""},
		{"no-direct", func(c *jetstream.StreamConfig) { c.AllowDirect = false }, ""},
		{"limit-markers", func(c *jetstream.StreamConfig) { c.SubjectDeleteMarkerTTL = time.Minute }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := bucketConfig(Config{Bucket: c.name, Replicas: 1})
			c.change(&config)
			natstest.Must(t, natstest.Err(js.CreateStream(t.Context(), config)))
			_, err := New(t.Context(), js.Conn(), Config{Bucket: c.name})
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, natsstore.ErrWrongBucket) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	for _, config := range []Config{{Bucket: "a.b"}, {Bucket: "*"}, {Replicas: 6}, {Replicas: -1}} {
		if _, err := New(t.Context(), js.Conn(), config); err == nil {
			t.Errorf("%v was taken", config)
		}
	}
}
