package admission

import (
	"context"
	"sync"

	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	// shareOf is the divisor of a room's size that gives the share: the maximum of open
	// requests of one client, and of those for one pool or lock.
	shareOf = 4

	// reserveOf is the divisor of a room's size that gives the reserve. A room of 16,384 has
	// a place there for each of natsembed.DefaultMaxConnections.
	reserveOf = 16

	// leastShare is the least share, unless the room is smaller.
	leastShare = 64
)

// Room bounds the open requests: in all, of each client, and for each pool or lock, so that
// a flood by one client, or for one pool, does not exclude all other requests. Until its
// client is known, a request takes no place: most of a flood is refused then.
//
// Several clients with full shares would leave no place to others. So while no more than a
// share is free, a client may have no more requests than there are free places beyond a
// reserve, which is for clients without an open request.
type Room struct {
	size, share int
	connections *Connections // nil without a Listener

	mu      sync.Mutex
	open    int // requests that have a place
	entered int // requests that have none yet; at most size, too
	clients map[client]*openRequests
	targets map[string]int // open requests for each pool or lock
}

// client is the connection that receives the answer to a request, or, if the connections
// are not known or the request names no inbox, what identifies the inbox.
type client struct {
	connection uint64
	inbox      string
}

// openRequests are the open requests of a client.
type openRequests struct {
	n   int
	ctx context.Context
	end context.CancelCauseFunc
}

// Place is that of a request in a Room, until Leave.
type Place struct {
	// Context is for the request. Its cause is ErrBusy if it ended because the connection
	// that would have received the answer is closed.
	Context context.Context

	room   *Room
	of     *openRequests // nil if the request counts for no client
	client client
	target string
}

// NewRoom returns a room. connections may be nil: the clients are inboxes then, which a
// client may make up.
func NewRoom(size int, connections *Connections) *Room {
	r := &Room{
		size: size, share: min(size, max(size/shareOf, leastShare)), connections: connections,
		clients: map[client]*openRequests{}, targets: map[string]int{},
	}
	connections.add(r)
	return r
}

// Enter counts a request for which Admit must be called. It returns false if there is no
// room for it.
func (r *Room) Enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open >= r.size || r.entered >= r.size {
		return false
	}
	r.entered++
	return true
}

// Admit gives a request that has entered a place, and returns false if that is not possible.
// The request counts for a connection that receives what is sent to reply, and otherwise for
// inbox. It takes time to find the connections, so while the room has few requests, they count
// for no client. Place.Context is a child of ctx.
func (r *Room) Admit(ctx context.Context, reply, inbox string) (*Place, bool) {
	if r.connections == nil || reply == "" {
		return r.claim(ctx, client{inbox: inbox})
	}
	if p := r.pass(ctx); p != nil {
		return p, true
	}
	var clients []client
	for _, connection := range r.connections.Of(reply) {
		clients = append(clients, client{connection: connection})
	}
	return r.claim(ctx, clients...)
}

// pass returns a place for a request that counts for no client, or nil if there are more
// requests than one client may have.
func (r *Room) pass(ctx context.Context) *Place {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open+r.entered > r.share {
		return nil
	}
	r.entered--
	r.open++
	return &Place{Context: ctx, room: r}
}

// claim counts a request for the one of clients with the fewest requests. It returns false if
// there is no room, or none of them may have a further request.
func (r *Room) claim(ctx context.Context, clients ...client) (*Place, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entered--
	least, free := r.share, r.size-r.open
	if free <= r.share && r.share < r.size {
		least = max(1, free-r.size/reserveOf)
	}
	p := &Place{room: r}
	for _, c := range clients {
		of := r.clients[c]
		if of == nil {
			of = &openRequests{}
		}
		if of.n < least {
			p.client, p.of, least = c, of, of.n
		}
	}
	if p.of == nil || free == 0 {
		return nil, false
	}
	r.open++
	if p.of.n++; p.of.n == 1 {
		p.of.ctx, p.of.end = context.WithCancelCause(ctx)
		r.clients[p.client] = p.of
	}
	p.Context = p.of.ctx
	return p, true
}

// endGone ends the requests of connections that are closed. Their cause is ErrBusy: a client
// may have connected again, and wait for the answer.
func (r *Room) endGone(open func(connection uint64) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c, of := range r.clients {
		if c.inbox == "" && !open(c.connection) {
			of.end(wire.ErrBusy)
		}
	}
}

// Aim counts the request for the pool or the lock that it may wait for. It returns false if
// too many requests for that target are open.
func (p *Place) Aim(target string) bool {
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	if p.room.targets[target] >= p.room.share {
		return false
	}
	p.room.targets[target]++
	p.target = target
	return true
}

// Leave frees the place.
func (p *Place) Leave() {
	r := p.room
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open--
	if p.of != nil {
		if p.of.n--; p.of.n == 0 {
			p.of.end(nil)
			delete(r.clients, p.client)
		}
	}
	if p.target != "" {
		if r.targets[p.target]--; r.targets[p.target] == 0 {
			delete(r.targets, p.target)
		}
	}
}
