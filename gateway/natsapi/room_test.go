package natsapi

import (
	"fmt"
	"testing"
)

func TestRoom(t *testing.T) {
	r := newRoom(4 * leastShare)
	for i := range r.share {
		if !r.enter("a") || !r.aim("pool") {
			t.Fatalf("no room for request %d", i)
		}
	}
	if r.enter("a") {
		t.Error("one client has more than its share")
	}
	if !r.enter("b") {
		t.Fatal("one client has the room of another one")
	}
	if r.aim("pool") {
		t.Error("one pool has more than its share")
	}
	if !r.aim("other") {
		t.Error("one pool has the room of another one")
	}
	r.leave("b", "other")
	r.leave("a", "pool")
	if !r.enter("a") || !r.aim("pool") {
		t.Error("the room of a request that has left is not free")
	}
	for i := 0; r.enter(fmt.Sprint(i)); i++ {
		defer r.leave(fmt.Sprint(i), "")
	}
	if r.open != r.size {
		t.Errorf("%d of %d fit", r.open, r.size)
	}
	for range r.share {
		r.leave("a", "pool")
	}
	if len(r.clients) != r.size-r.share || len(r.targets) != 0 {
		t.Errorf("%d clients and %d pools are counted", len(r.clients), len(r.targets))
	}
}

// A small room is not divided: a share of less than leastShare would refuse a client that
// does nothing unusual.
func TestShares(t *testing.T) {
	for size, want := range map[int]int{1: 1, 2: 2, 64: 64, 100: 64, 1000: 250, DefaultMaxBorrows: 4096} {
		if got := newRoom(size).share; got != want {
			t.Errorf("the share of a room of %d is %d, want %d", size, got, want)
		}
	}
}
