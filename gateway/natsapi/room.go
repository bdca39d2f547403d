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
// an accident of one program, or a crowd at one pool, does not exclude all other requests.
type room struct {
	size, share int

	mu      sync.Mutex
	open    int
	clients map[string]int // open requests of each
	targets map[string]int // open requests for each pool or lock
}

// place is that of a request in a room, until leave.
type place struct {
	room           *room
	client, target string
}

func newRoom(size int) *room {
	return &room{size: size, share: min(size, max(size/shareOf, leastShare)), clients: map[string]int{}, targets: map[string]int{}}
}

// enter gives a request of a client a place. It returns nil if there is none for it.
func (r *room) enter(client string) *place {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open >= r.size || r.clients[client] >= r.share {
		return nil
	}
	r.open++
	r.clients[client]++
	return &place{room: r, client: client}
}

// aim counts the request for the pool or the lock that it may wait for. It returns false if
// too many requests for that target are open.
func (p *place) aim(target string) bool {
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	if p.room.targets[target] >= p.room.share {
		return false
	}
	p.room.targets[target]++
	p.target = target
	return true
}

// leave frees the place.
func (p *place) leave() {
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	p.room.open--
	uncount(p.room.clients, p.client)
	if p.target != "" {
		uncount(p.room.targets, p.target)
	}
}

func uncount(open map[string]int, of string) {
	if open[of]--; open[of] == 0 {
		delete(open, of)
	}
}
