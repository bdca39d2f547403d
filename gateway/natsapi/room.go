package natsapi

import "sync"

const (
	// shareOf is the divisor of a room's size that gives the share: the maximum of open
	// requests of one client, and of those for one pool or lock.
	shareOf = 4

	// leastShare is the least share, unless the room is smaller.
	leastShare = 64
)

// room bounds the open requests: in all, of each client, and for each pool or lock, so that
// a flood by one client, or for one pool, does not exclude all other requests. A request
// enters, claims a place in the share of a client if it has to (see Service.admit), aims at
// a pool or a lock if it waits for one, and leaves.
type room struct {
	size, share int

	mu      sync.Mutex
	open    int
	clients map[string]int // open requests
	targets map[string]int // likewise, by pool or lock
}

func newRoom(size int) *room {
	return &room{
		size: size, share: min(size, max(size/shareOf, leastShare)),
		clients: map[string]int{}, targets: map[string]int{},
	}
}

// enter counts a request. It returns false if there is no room for it.
func (r *room) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open >= r.size {
		return false
	}
	r.open++
	return true
}

// crowded reports whether more requests are open than one client may have.
func (r *room) crowded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open > r.share
}

// claim counts a request that has entered for one of the clients that it may be from: the
// one with the fewest requests. It returns false if none of them may have a further one.
func (r *room) claim(clients ...string) (client string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	least := r.share
	for _, c := range clients {
		if r.clients[c] < least {
			client, least, ok = c, r.clients[c], true
		}
	}
	if ok {
		r.clients[client]++
	}
	return client, ok
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

// leave undoes enter, claim and aim. client is "" if nothing was claimed, and target is ""
// if aim was not called.
func (r *room) leave(client, target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open--
	if client != "" {
		decrement(r.clients, client)
	}
	if target != "" {
		decrement(r.targets, target)
	}
}

func decrement(counts map[string]int, key string) {
	if counts[key]--; counts[key] == 0 {
		delete(counts, key)
	}
}
