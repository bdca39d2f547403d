package cosmo

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// A release after the bucket was deleted and created again does not free the slot of the
// next job, whose entry has a lower revision, the same, or a higher one.
func TestLimiterReleasesNothingInANewBucket(t *testing.T) {
	for name, c := range map[string]struct{ before, after int }{
		"lower":  {4, 0},
		"same":   {0, 0},
		"higher": {0, 4},
	} {
		t.Run(name, func(t *testing.T) {
			nc := kvslotstest.Start(t, "").Connect()
			l, ruby := newTestLimiter(t, nc), plainWorker{nc}
			for range c.before {
				mustRelease(t, l, mustAcquire(t, l, "other", "job", 1, time.Minute))
			}
			ours := mustAcquire(t, l, "ours", "job", 1, time.Minute)
			theirs, err := ruby.Acquire(t.Context(), "theirs", "job", 1, time.Minute)
			natstest.Must(t, err)
			theirs, _, err = l.Holder(t.Context(), theirs.Key)
			natstest.Must(t, err)
			natstest.Must(t, l.js.DeleteStream(t.Context(), l.stream))
			// A server that still removes the files of a stream refuses to create it.
			kvslotstest.Eventually(t, "the bucket is created again", func() bool {
				_, err := New(t.Context(), nc, Config{})
				return err == nil
			})
			for range c.after {
				mustRelease(t, l, mustAcquire(t, l, "other", "job", 1, time.Minute))
			}
			next, err := ruby.Acquire(t.Context(), "ours", "next", 1, time.Minute)
			natstest.Must(t, err)
			mine := mustAcquire(t, l, "theirs", "next", 1, time.Minute)
			if (next.Revision < ours.Revision) != (name == "lower") || (next.Revision == ours.Revision) != (name == "same") {
				t.Fatalf("revision %d after %d", next.Revision, ours.Revision)
			}
			for _, late := range []Slot{ours, theirs} {
				if released, err := l.Release(t.Context(), late); released || err != nil {
					t.Errorf("the late release of %v: %v, %v", late, released, err)
				}
				if _, jid, err := l.Holder(t.Context(), late.Key); jid != "next" || err != nil {
					t.Errorf("the holder of %s is %q, %v", late.Key, jid, err)
				}
			}
			mustRelease(t, l, mine)
			if held, _, err := l.Holder(t.Context(), next.Key); err != nil {
				t.Error(err)
			} else {
				mustRelease(t, l, held)
			}
		})
	}
}

func mustRelease(t *testing.T, l *Limiter, slot Slot) {
	t.Helper()
	if released, err := l.Release(t.Context(), slot); !released || err != nil {
		t.Fatalf("released: %v, %v", released, err)
	}
}
