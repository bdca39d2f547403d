package peer_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

func TestFindPools(t *testing.T) {
	h := newHarness(t)
	titled := func(title string, count int) entry.Hash {
		id := h.hash()
		h.must(peer.Register{Pool: id, Count: count, Title: &title})
		return id
	}
	for range 300 {
		h.newPool(1)
	}
	screens, first, second := titled("screens", 1), titled("twice", 1), titled("twice", 1)
	name := entry.HashOf(entry.OfName, "twice")
	want := func(r peer.FindPools, want ...entry.Hash) {
		t.Helper()
		var got []entry.Hash
		for _, p := range h.must(r).Stats.Pools {
			got = append(got, p.Hash)
		}
		slices.SortFunc(want, func(x, y entry.Hash) int { return bytes.Compare(x[:], y[:]) })
		if !slices.Equal(got, want) {
			t.Errorf("%+v: %v, want %v", r, got, want)
		}
	}
	want(peer.FindPools{Title: "screens", Max: 9}, screens)
	want(peer.FindPools{Digits: screens.String()[:9], Max: 9}, screens)
	want(peer.FindPools{Title: "screens", Digits: screens.String(), Max: 9}, screens)
	want(peer.FindPools{Title: "scree", Max: 9})
	want(peer.FindPools{Max: 9})
	want(peer.FindPools{Title: "twice", Names: []entry.Hash{name}, Max: 9}, first, second) // the lock is not in use
	session := h.hash()
	h.must(peer.CreateSession{Session: session, Idle: time.Hour})
	h.must(peer.Acquire{Resource: peer.Resource{Pool: name, Name: "twice", Lock: true}, Session: session, Lease: h.hash(), TTL: time.Minute})
	want(peer.FindPools{Title: "twice", Names: []entry.Hash{name}, Max: 9}, first, second, name)
	if n := len(h.must(peer.FindPools{Title: "twice", Names: []entry.Hash{name}, Max: 2}).Stats.Pools); n != 2 {
		t.Errorf("%d pools, want 2", n)
	}
	want(peer.FindPools{Digits: name.String()[:8], Max: 9}, name)
	other := "renamed"
	h.must(peer.Register{Pool: first, Count: 1, Title: &other})
	h.must(peer.Delete{Pool: second})
	want(peer.FindPools{Title: "twice", Max: 9})
	want(peer.FindPools{Title: "renamed", Max: 9}, first)
	want(peer.FindPools{Digits: second.String()[:8], Max: 9})
}
