package natsapi

import (
	"fmt"
	"testing"
)

// request enters the room for one of the clients, and leaves again if there is no place.
func (r *room) request(clients ...string) (client string, ok bool) {
	if !r.enter() {
		return "", false
	}
	if client, ok = r.claim(clients...); !ok {
		r.leave("", "")
	}
	return client, ok
}

func TestRoom(t *testing.T) {
	r := newRoom(4 * leastShare)
	for i := range r.share {
		if _, ok := r.request("a"); !ok || !r.aim("pool") {
			t.Fatalf("no room for request %d", i)
		}
	}
	if _, ok := r.request("a"); ok {
		t.Error("one client has more than its share")
	}
	if _, ok := r.request(); ok {
		t.Error("a request of no client has a place")
	}
	if r.crowded() {
		t.Error("a room with one share of requests is crowded")
	}
	if client, ok := r.request("a", "b", "a"); !ok || client != "b" {
		t.Fatalf("a request of a or b is counted for %q, %v", client, ok)
	}
	if !r.crowded() {
		t.Error("a room with more than one share of requests is not crowded")
	}
	if r.aim("pool") {
		t.Error("one pool has more than its share")
	}
	if !r.aim("other") {
		t.Error("one pool has the room of another one")
	}
	r.leave("b", "other")
	r.leave("a", "pool")
	if _, ok := r.request("a"); !ok || !r.aim("pool") {
		t.Error("the room of a request that has left is not free")
	}
	for i := 0; r.enter(); i++ {
		client, _ := r.claim(fmt.Sprint(i))
		defer r.leave(client, "")
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
