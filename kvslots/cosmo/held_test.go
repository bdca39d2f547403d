package cosmo

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

func allHeld(t *testing.T, l *Limiter) []Held {
	t.Helper()
	var all []Held
	for held, err := range l.Held(t.Context()) {
		natstest.Must(t, err)
		all = append(all, held)
	}
	return all
}

// Held yields the acquisitions of all workers, and neither markers nor other entries.
func TestLimiterHeld(t *testing.T) {
	nc := kvslotstest.Start(t, "").Connect()
	l := newTestLimiter(t, nc)
	if all := allHeld(t, l); len(all) != 0 {
		t.Errorf("held in an empty bucket: %v", all)
	}
	began := time.Now()
	ours := mustAcquire(t, l, "Zürich", "ours", 2, 150*time.Second)
	free := mustAcquire(t, l, "mail", "free", 1, time.Minute)
	theirs, err := plainWorker{nc}.Acquire(t.Context(), "", "theirs", 1, time.Hour)
	natstest.Must(t, err)
	mustRelease(t, l, free)
	marked := mustAcquire(t, l, "marked", "gone", 1, time.Minute)
	kv, err := l.js.KeyValue(t.Context(), DefaultBucket)
	natstest.Must(t, err)
	natstest.Must(t, kv.Delete(t.Context(), marked.Key))
	for _, key := range []string{"no-slot", "mail/x"} {
		natstest.Must(t, natstest.Err(kv.PutString(t.Context(), key, "text")))
	}
	all := allHeld(t, l)
	if len(all) != 2 {
		t.Fatalf("held: %v", all)
	}
	for n, want := range []Held{{Slot: ours, JobID: "ours", Duration: 150 * time.Second}, {Slot: theirs, JobID: "theirs", Duration: time.Hour}} {
		got := all[n]
		if got.Age < 0 || got.Age > time.Since(began) {
			t.Errorf("the age of %s is %s", got.Key, got.Age)
		}
		if want.ID == "" {
			want.ID = got.ID
		}
		if want.Age = got.Age; got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	if all[1].ID == "" {
		t.Error("no ID")
	}
	for held := range l.Held(t.Context()) {
		mustRelease(t, l, held.Slot)
		break // the iterator can be left
	}
	if all := allHeld(t, l); len(all) != 1 || all[0].JobID != "theirs" {
		t.Errorf("held after a release: %v", all)
	}
}

// The age is the time since the acquisition.
func TestLimiterHeldAge(t *testing.T) {
	l := newTestLimiter(t, kvslotstest.Start(t, "").Connect())
	mustAcquire(t, l, "mail", "job", 1, time.Minute)
	acquired := time.Now()
	kvslotstest.Eventually(t, "the slot is a second old", func() bool {
		least := time.Since(acquired)
		age := allHeld(t, l)[0].Age
		if age < least {
			t.Errorf("the age is %s after %s", age, least)
		}
		return age > time.Second
	})
}

func TestLimiterHeldReportsFailures(t *testing.T) {
	srv := kvslotstest.Start(t, "")
	l := newTestLimiter(t, srv.Connect())
	mustAcquire(t, l, "mail", "job", 1, time.Minute)
	errorsOf := func(ctx context.Context) (failures []error) {
		for _, err := range l.Held(ctx) {
			failures = append(failures, err)
		}
		return failures
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := errorsOf(ctx); len(got) != 1 || !errors.Is(got[0], context.Canceled) {
		t.Errorf("with a context that has ended: %v", got)
	}
	natstest.Must(t, l.js.DeleteStream(t.Context(), l.stream))
	if got := errorsOf(t.Context()); len(got) != 1 || !errors.Is(got[0], kvslots.ErrUnavailable) || !errors.Is(got[0], jetstream.ErrStreamNotFound) {
		t.Errorf("without a bucket: %v", got)
	}
}
