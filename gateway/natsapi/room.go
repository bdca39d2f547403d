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
// a flood by one client, or for one pool, does not exclude all other requests.
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

// enter counts a request of a client. It returns false if there is no room for it.
func (r *room) enter(client string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open >= r.size || r.clients[client] >= r.share {
		return false
	}
	r.open++
	r.clients[client]++
	return true
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

// leave undoes enter and aim. target is "" if aim was not called.
func (r *room) leave(client, target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open--
	decrement(r.clients, client)
	if target != "" {
		decrement(r.targets, target)
	}
}

func decrement(counts map[string]int, key string) {
	if counts[key]--; counts[key] == 0 {
		delete(counts, key)
	}
}
