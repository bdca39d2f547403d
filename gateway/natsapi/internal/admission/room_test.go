package admission

import (
	"context"
	"fmt"
	"testing"

	"github.com/kvslots/kvslots/kvslots/wire"
)

const defaultSize = 16384

// named returns the clients with the given inboxes.
func named(names ...string) (clients []client) {
	for _, name := range names {
		clients = append(clients, client{inbox: name})
	}
	return clients
}

// request enters the room for one of the clients, and leaves again if there is no place.
func (r *Room) request(clients ...string) (*Place, bool) {
	if !r.Enter() {
		return nil, false
	}
	return r.claim(context.Background(), named(clients...)...)
}

func TestRoom(t *testing.T) {
	r := NewRoom(4*leastShare, nil)
	r.Enter()
	first := r.pass(t.Context())
	if first == nil {
		t.Fatal("the first request does not pass")
	}
	first.Leave()
	var ofA []*Place
	for i := range r.share {
		p, ok := r.request("a")
		if !ok || !p.Aim("pool") {
			t.Fatalf("no room for request %d", i)
		}
		ofA = append(ofA, p)
	}
	if _, ok := r.request("a"); ok {
		t.Error("one client has more than its share")
	}
	if _, ok := r.request(); ok {
		t.Error("a request of no client has a place")
	}
	ofB, ok := r.request("a", "b", "a")
	if !ok || ofB.client.inbox != "b" {
		t.Fatalf("a request of a or b is counted for %+v, %v", ofB, ok)
	}
	if r.Enter(); r.pass(t.Context()) != nil {
		t.Error("a request passes where one client may have made all others")
	}
	r.claim(t.Context())
	if ofB.Aim("pool") {
		t.Error("one pool has more than its share")
	}
	if !ofB.Aim("other") {
		t.Error("one pool has the room of another one")
	}
	ofB.Leave()
	ofA[0].Leave()
	if ofA[0], ok = r.request("a"); !ok || !ofA[0].Aim("pool") {
		t.Error("the room of a request that has left is not free")
	}
	for i := 0; r.Enter(); i++ {
		if p, ok := r.claim(t.Context(), named(fmt.Sprint(i))...); ok {
			defer p.Leave()
		}
	}
	if r.open != r.size {
		t.Errorf("%d of %d fit", r.open, r.size)
	}
	for _, p := range ofA {
		p.Leave()
	}
	if len(r.clients) != r.size-r.share || len(r.targets) != 0 {
		t.Errorf("%d clients and %d pools are counted", len(r.clients), len(r.targets))
	}
}

// A flood whose client is not known yet does not exclude others, and does not grow without
// bound. Nor do more requests claim a place than there are.
func TestRoomBesideUnknownClients(t *testing.T) {
	r := NewRoom(4*leastShare, nil)
	for range r.size - 1 {
		r.Enter()
	}
	if _, ok := r.request("other"); !ok {
		t.Error("requests that may all be refused exclude another client")
	}
	for range r.size {
		r.Enter()
	}
	if r.entered != r.size {
		t.Errorf("%d requests have entered a room of %d", r.entered, r.size)
	}
	for i := range r.size {
		r.claim(t.Context(), named(fmt.Sprint(i))...)
	}
	if r.entered != 0 || r.open != r.size {
		t.Errorf("%d of %d fit, and %d more", r.open, r.size, r.entered)
	}
}

// However many clients take what they can get, there is room for a further one.
func TestRoomForFurtherClients(t *testing.T) {
	r := NewRoom(defaultSize, nil)
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

// The requests of closed connections end, and those of other clients do not.
func TestRequestsOfGoneClientsEnd(t *testing.T) {
	r := NewRoom(defaultSize, nil)
	gone, here, inbox := client{connection: 1}, client{connection: 2}, client{inbox: "a"}
	places := map[client]*Place{}
	for _, c := range []client{gone, here, inbox} {
		r.Enter()
		places[c], _ = r.claim(t.Context(), c)
	}
	r.endGone(func(connection uint64) bool { return connection == 2 })
	if cause := context.Cause(places[gone].Context); cause != wire.ErrBusy {
		t.Errorf("a request of a client that is gone: %v", cause)
	}
	for _, c := range []client{here, inbox} {
		if err := places[c].Context.Err(); err != nil {
			t.Errorf("a request of another client: %v", err)
		}
	}
	places[gone].Leave()
	r.Enter()
	if p, ok := r.claim(t.Context(), gone); !ok || p.Context.Err() != nil {
		t.Error("a client that comes back has no room")
	}
}

// A small room is not divided: a share of less than leastShare would refuse a client that
// does nothing unusual.
func TestShares(t *testing.T) {
	for size, want := range map[int]int{1: 1, 2: 2, 64: 64, 100: 64, 1000: 250, defaultSize: 4096} {
		if got := NewRoom(size, nil).share; got != want {
			t.Errorf("the share of a room of %d is %d, want %d", size, got, want)
		}
	}
}
