package natsapi

import (
	"slices"
	"testing"
)

// In a flood, requests are dropped whose answers no connection would receive. A client that
// has subscribed since the last look is found, in the same flood and in a later one.
func TestFloodDrops(t *testing.T) {
	var subscribed []string
	looks := 0
	f := flood{identities: &identities{subscribers: func() matcher {
		looks++
		found := slices.Clone(subscribed)
		return func(subject string) []uint64 {
			return make([]uint64, len(found))[:min(len(found), 1+slices.Index(found, subject))]
		}
	}}}
	want := func(reply string, waiting int, dropped bool, looked int) {
		t.Helper()
		if got := f.drops(reply, waiting); got != dropped || looks != looked {
			t.Errorf("%s with %d waiting: dropped %v after %d looks, want %v after %d", reply, waiting, got, looks, dropped, looked)
		}
	}
	const many = floodMessages + 1
	want("a", floodMessages, false, 0)
	want("a", many+1, true, 1)
	want("", many, true, 1)
	subscribed = append(subscribed, "a")
	for range many - 1 {
		want("a", many, true, 1) // all of them had arrived at the look
	}
	want("a", many+1, true, 1)
	want("a", many, false, 2)
	want("b", many, true, 2)
	want("b", floodMessages, false, 2) // the flood is over
	subscribed = append(subscribed, "b")
	want("b", many, false, 3)
	f.identities = nil
	want("c", many, false, 3)
}
