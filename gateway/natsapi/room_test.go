package natsapi

import (
	"context"
	"fmt"
	"testing"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// request enters the room for one of the clients, and leaves again if there is no place.
func (r *room) request(clients ...string) (client string, ok bool) {
	if !r.enter() {
		return "", false
	}
	client, _, ok = r.claim(context.Background(), clients...)
	return client, ok
}

func TestRoom(t *testing.T) {
	r := newRoom(4 * leastShare)
	if r.enter(); !r.pass() {
		t.Error("the first request does not pass")
	}
	r.leave("", "")
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
	if client, ok := r.request("a", "b", "a"); !ok || client != "b" {
		t.Fatalf("a request of a or b is counted for %q, %v", client, ok)
	}
	if r.enter(); r.pass() {
		t.Error("a request passes where one client may have made all others")
	}
	r.claim(t.Context())
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
		client, _, _ := r.claim(t.Context(), fmt.Sprint(i))
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

// A flood whose client is not known yet does not exclude others, and does not grow without
// bound. Nor do more requests claim a place than there are.
func TestRoomBesideUnknownClients(t *testing.T) {
	r := newRoom(4 * leastShare)
	for range r.size - 1 {
		r.enter()
	}
	if _, ok := r.request("other"); !ok {
		t.Error("requests that may all be refused exclude another client")
	}
	for range r.size {
		r.enter()
	}
	if r.entered != r.size {
		t.Errorf("%d requests have entered a room of %d", r.entered, r.size)
	}
	for i := range r.size {
		r.claim(t.Context(), fmt.Sprint(i))
	}
	if r.entered != 0 || r.open != r.size {
		t.Errorf("%d of %d fit, and %d more", r.open, r.size, r.entered)
	}
}

// However many clients take what they can get, there is room for a further one.
func TestRoomForFurtherClients(t *testing.T) {
	r := newRoom(DefaultMaxBorrows)
	for i := range 1000 {
		for range r.size {
			if _, ok := r.request(fmt.Sprint(i)); !ok {
				break
			}
		}
	}
	if r.open == r.size {
		t.Error("1000 clients have filled the room")
	}
}

// The requests of clients that are gone end, and those of others do not.
func TestRequestsOfGoneClientsEnd(t *testing.T) {
	r := newRoom(DefaultMaxBorrows)
	requests := map[string]context.Context{}
	for _, name := range []string{"gone", "here"} {
		r.enter()
		_, requests[name], _ = r.claim(t.Context(), name)
	}
	r.endGone(func(client string) bool { return client == "here" })
	if cause := context.Cause(requests["gone"]); cause != wire.ErrBusy {
		t.Errorf("a request of a client that is gone: %v", cause)
	}
	if err := requests["here"].Err(); err != nil {
		t.Errorf("a request of another client: %v", err)
	}
	r.leave("gone", "")
	if r.enter(); !r.claims(t, "gone") {
		t.Error("a client that comes back has no room")
	}
}

// claims reports whether a client gets a context that has not ended.
func (r *room) claims(t *testing.T, client string) bool {
	_, ctx, ok := r.claim(t.Context(), client)
	return ok && ctx.Err() == nil
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
