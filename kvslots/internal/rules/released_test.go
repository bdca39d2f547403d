package rules

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

func TestReleased(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	pool, other, owner := entry.HashOf("pool", "a"), entry.HashOf("pool", "b"), entry.HashOf("owner", "ann")
	w := New()
	revision := uint64(0)
	apply := func(pool, owner entry.Hash, at time.Duration) {
		revision++
		w.Apply(entry.Entry{
			Key: entry.Key{Kind: entry.Slot, Pool: pool}, Revision: revision, Time: start.Add(at), Marker: true, Owner: owner,
		}, Instant(at), 0)
	}
	want := func(pool entry.Hash, at time.Duration, want bool) {
		t.Helper()
		if got := w.ReleasedBy(pool, owner, Instant(at)); got != want {
			t.Errorf("at %v: released %v, want %v", at, got, want)
		}
	}
	apply(pool, owner, 0)
	want(pool, 59*time.Second, true)
	want(pool, time.Minute, false)
	want(other, time.Second, false)
	apply(pool, owner, 30*time.Second) // again
	apply(other, entry.Hash{}, 80*time.Second)
	want(other, 80*time.Second, false) // nobody's release
	want(pool, 80*time.Second, true)

	w.Rebase(start.Add(85*time.Second), Instant(time.Hour)) // it was 55 s ago
	want(pool, time.Hour+4*time.Second, true)
	want(pool, time.Hour+5*time.Second, false)

	apply(other, owner, 100*time.Second)
	if n := len(w.released.order); n != 1 || len(w.released.last) != 1 {
		t.Errorf("%d releases and %d owners are kept, want 1 of each", n, len(w.released.last))
	}
}

func TestReleasedIsBounded(t *testing.T) {
	var r releases
	at := time.Unix(1_700_000_000, 0)
	for i := range maxReleased + 10 {
		r.note(entry.Hash{byte(i), byte(i >> 8), byte(i >> 16), 1}, entry.Entry{Owner: entry.Hash{1}, Time: at}, 0)
	}
	if len(r.order) != maxReleased || len(r.last) != maxReleased {
		t.Errorf("%d kept, and %d owners", len(r.order), len(r.last))
	}
}
