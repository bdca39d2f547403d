package natsapi

import (
	"fmt"
	"testing"
)

func TestRoom(t *testing.T) {
	const size, share = 4 * leastShare, leastShare
	r := newRoom(size)
	var ofA []*place
	for i := range share {
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
	if others != size-share {
		t.Errorf("%d requests fit beside %d", others, share)
	}
	for _, p := range ofA {
		p.leave()
	}
	if r.clients.Open() != others || r.targets.Open() != 0 {
		t.Errorf("%d requests, and %d for pools, are counted", r.clients.Open(), r.targets.Open())
	}
}

// A small room is not divided: a share of less than leastShare would refuse a client that
// does nothing unusual.
func TestShares(t *testing.T) {
	for size, want := range map[int]int{1: 1, 2: 2, 64: 64, 100: 64, 1000: 250, DefaultMaxBorrows: 4096} {
		if got := shareIn(size); got != want {
			t.Errorf("the share of a room of %d is %d, want %d", size, got, want)
		}
	}
}
