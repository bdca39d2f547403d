package cosmo

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// A Limiter and workers that publish as Ruby's share limits with the keys that job classes
// of Cosmo have. The release of each frees no slot but its own.
func TestLimiterSharesKeysWithRuby(t *testing.T) {
	nc := kvslotstest.Start(t, "").Connect()
	l, ruby := newTestLimiter(t, nc), plainWorker{nc}
	for _, key := range []string{
		"mail", "api-v1_job", "api-v1_job/42", "user@example.com", "gid://app/User/7", "Zürich", "+~(),%#$", "!\"&'[]{}|\\^`;:?<",
		"", "/", "mail/", "mail/*", "ma*il.x>", ">>.**", "mail.", "a.b.c", "mail/Acme-Inc.", "\x01\x1f\u2028\u00a0", "日本",
		strings.Repeat("k", 201), strings.Repeat("ü", 250), strings.Repeat("k.", 100) + "k", strings.Repeat("k", MaxKey),
	} {
		t.Run(key[:min(len(key), 20)], func(t *testing.T) {
			other := mustAcquire(t, l, "other", "bystander", 1, time.Minute)
			defer mustRelease(t, l, other)
			theirs, err := ruby.Acquire(t.Context(), key, "theirs", 2, time.Minute)
			natstest.Must(t, err)
			ours := mustAcquire(t, l, key, "ours", 2, time.Minute)
			if theirs.Key != key+"/0" || ours.Key != key+"/1" {
				t.Errorf("got %q and %q", theirs.Key, ours.Key)
			}
			wantNoSlot(t, l, key, 2)
			if _, err := ruby.Acquire(t.Context(), key, "late", 2, time.Minute); !errors.Is(err, kvslots.ErrNoSlot) {
				t.Errorf("a third holder: %v", err)
			}
			held, jid, err := l.Holder(t.Context(), theirs.Key)
			if err != nil || held.Key != theirs.Key || held.Revision != theirs.Revision || jid != "theirs" {
				t.Errorf("the holder is %v, %q, %v", held, jid, err)
			}
			if _, err := ruby.Release(t.Context(), theirs); err != nil { // it has purged just one entry
				t.Error(err)
			}
			mustRelease(t, l, ours)
			again, err := ruby.Acquire(t.Context(), key, "theirs", 1, time.Minute)
			natstest.Must(t, err)
			mustRelease(t, l, again)
		})
	}
}
