package natsapi

import "testing"

// listening is a Listener that knows the subjects to which clients are subscribed.
type listening struct {
	Listener
	to map[string]bool
}

func (l listening) Listened(subject string) bool { return l.to[subject] }

// In a flood, requests are dropped whose answers no connection would receive. A client that
// has subscribed since is found, in the same flood and in a later one.
func TestFloodDrops(t *testing.T) {
	subscribed := map[string]bool{}
	s := &Service{listener: listening{to: subscribed}}
	want := func(reply string, waiting int, dropped bool) {
		t.Helper()
		if got := s.drops(reply, waiting); got != dropped {
			t.Errorf("%s with %d waiting: dropped %v, want %v", reply, waiting, got, dropped)
		}
	}
	const many = floodMessages + 1
	want("a", floodMessages, false)
	want("a", many, true)
	want("", many, true)
	subscribed["a"] = true
	want("a", many, false)
	want("b", many, true)
	want("b", floodMessages, false) // the flood is over
	subscribed["b"] = true
	want("b", many, false)
	s.listener = nil
	want("c", many, false)
}
