package natsapi

import "github.com/kvslots/kvslots/gateway/internal/ops"

const (
	// shareOf is the divisor of a room's size that gives the share: the maximum of open
	// requests of one client, and of those for one pool or lock.
	shareOf = 4

	// leastShare is the least share, unless the room is smaller.
	leastShare = 64
)

// room bounds the open requests: in all, of each client, and for each pool or lock, so that
// an accident of one program, or a crowd at one pool, does not exclude all other requests.
type room struct{ clients, targets ops.Limiter[string] }

// place is that of a request in a room, until leave.
type place struct {
	room           *room
	client, target string
}

func newRoom(size int) *room {
	r, share := &room{}, shareIn(size)
	r.clients.Limit(ops.Limits{Total: size, PerIP: share})
	r.targets.Limit(ops.Limits{PerIP: share})
	return r
}

func shareIn(size int) int { return min(size, max(size/shareOf, leastShare)) }

// enter gives a request of a client a place. It returns nil if there is none for it.
func (r *room) enter(client string) *place {
	if r.clients.Enter(client) != ops.Within {
		return nil
	}
	return &place{room: r, client: client}
}

// aim counts the request for the pool or the lock that it may wait for. It returns false if
// too many requests for that target are open.
func (p *place) aim(target string) bool {
	if p.room.targets.Enter(target) != ops.Within {
		return false
	}
	p.target = target
	return true
}

// isCrowded reports whether more than half of what the client, or all, may have open is open.
func (p *place) isCrowded() bool { return p.room.clients.IsCrowded(p.client) }

func (p *place) leave() {
	p.room.clients.Leave(p.client)
	if p.target != "" {
		p.room.targets.Leave(p.target)
	}
}
