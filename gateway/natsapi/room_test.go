package natsapi

import (
	"fmt"
	"testing"
)

func TestRoom(t *testing.T) {
	r := newRoom(4 * leastShare)
	var ofA []*place
	for i := range r.share {
		p := r.enter("a")
		if p == nil || !p.aim("pool") {
			t.Fatalf("no room for request %d", i)
		}
		ofA = append(ofA, p)
	}
	if r.enter("a") != nil {
		t.Error("one client has more than its share")
	}
	ofB := r.enter("b")
	if ofB.aim("pool") {
		t.Error("one pool has more than its share")
	}
	if !ofB.aim("other") {
		t.Error("one pool has the room of another one")
	}
	ofB.leave()
	ofA[0].leave()
	if ofA[0] = r.enter("a"); ofA[0] == nil || !ofA[0].aim("pool") {
		t.Error("the room of a request that has left is not free")
	}
	others := 0
	for p := r.enter("0"); p != nil; p = r.enter(fmt.Sprint(others)) {
		defer p.leave()
		others++
	}
	if others != r.size-r.share {
		t.Errorf("%d requests fit beside %d", others, r.share)
	}
	for _, p := range ofA {
		p.leave()
	}
	if r.open != others || len(r.clients) != others || len(r.targets) != 0 {
		t.Errorf("%d requests, %d clients and %d pools are counted", r.open, len(r.clients), len(r.targets))
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
