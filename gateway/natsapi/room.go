package natsapi

import (
	"context"
	"sync"

	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	// shareOf is the divisor of a room's size that gives the share: the maximum of open
	// requests of one client, and of those for one pool or lock.
	shareOf = 4

	// reserveOf is the divisor of a room's size that gives the reserve. That of
	// DefaultMaxBorrows has a place for each of natsembed.DefaultMaxConnections.
	reserveOf = 16

	// leastShare is the least share, unless the room is smaller.
	leastShare = 64
)

// room bounds the open requests: in all, of each client, and for each pool or lock, so that
// a flood by one client, or for one pool, does not exclude all other requests. A request
// enters, passes or claims a place in the share of a client (see Service.admit), aims at
// a pool or a lock if it waits for one, and leaves. Until its client is known, a request
// takes no place: most of a flood is refused then.
//
// Several clients with full shares would leave no place to others. So while no more than a
// share is free, a client may have no more requests than there are free places beyond a
// reserve, which is for clients without an open request.
type room struct {
	size, share int

	mu      sync.Mutex
	open    int // requests that have passed or claimed
	entered int // requests that have done neither yet; at most size, too
	clients map[string]*roomClient
	targets map[string]int // open requests for each pool or lock
}

// roomClient is a client with open requests.
type roomClient struct {
	open int
	ctx  context.Context // of the requests
	end  context.CancelCauseFunc
}

func newRoom(size int) *room {
	return &room{
		size: size, share: min(size, max(size/shareOf, leastShare)),
		clients: map[string]*roomClient{}, targets: map[string]int{},
	}
}

// enter counts a request whose client is not known yet. It returns false if there is no
// room for it.
func (r *room) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open >= r.size || r.entered >= r.size {
		return false
	}
	r.entered++
	return true
}

// pass reports whether a request that has entered need not claim, since there are no more
// requests than one client may have.
func (r *room) pass() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open+r.entered > r.share {
		return false
	}
	r.entered--
	r.open++
	return true
}

// claim counts a request that has entered for one of the clients that it may be from: the
// one with the fewest requests. The request must end with the context that claim returns, a
// child of ctx. If there is no room, or none of them may have a further request, claim
// returns false, and the request has left.
func (r *room) claim(ctx context.Context, clients ...string) (client string, _ context.Context, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entered--
	free := r.size - r.open
	if free == 0 {
		return "", nil, false
	}
	least := r.share
	if free <= r.share && r.share < r.size {
		least = max(1, free-r.size/reserveOf)
	}
	for _, c := range clients {
		n := 0
		if known := r.clients[c]; known != nil {
			n = known.open
		}
		if n < least {
			client, least, ok = c, n, true
		}
	}
	if !ok {
		return "", nil, false
	}
	r.open++
	if r.clients[client] == nil {
		of := &roomClient{}
		of.ctx, of.end = context.WithCancelCause(ctx)
		r.clients[client] = of
	}
	r.clients[client].open++
	return client, r.clients[client].ctx, true
}

// endGone ends the requests of clients that are not connected any more. Their cause is
// ErrBusy: a client may have connected again, and wait for the answer.
func (r *room) endGone(connected func(client string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, client := range r.clients {
		if !connected(name) {
			client.end(wire.ErrBusy)
		}
	}
}

// aim counts a request that has entered for its target. It returns false if there is no
// room for it.
func (r *room) aim(target string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.targets[target] >= r.share {
		return false
	}
	r.targets[target]++
	return true
}

// leave undoes pass or claim, and aim. client is "" if nothing was claimed, and target is ""
// if aim was not called.
func (r *room) leave(client, target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open--
	if of := r.clients[client]; of != nil {
		if of.open--; of.open == 0 {
			of.end(nil)
			delete(r.clients, client)
		}
	}
	if target != "" {
		if r.targets[target]--; r.targets[target] == 0 {
			delete(r.targets, target)
		}
	}
}
