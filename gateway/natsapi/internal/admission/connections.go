package admission

import (
	"iter"
	"sync"
	"sync/atomic"
	"time"
)

// Listener is the server to which the clients of a service connect; natsembed.Server.Clients is one.
type Listener interface {
	// Subscribers returns a function that returns the connections that are subscribed to a
	// subject, by their numbers.
	Subscribers() func(subject string) (connections []uint64)

	// Connected reports whether a connection is still open.
	Connected(connection uint64) bool

	// Address returns the address and port of a connection.
	Address(connection uint64) (address string, open bool)

	// Listened reports whether a client is subscribed to a subject now.
	Listened(subject string) bool

	// ClientsReply reports whether clients may publish to the reply subject of what they
	// receive, and may receive what is sent to others.
	ClientsReply() bool
}

// restFactor is how long Connections rests after a look at the subscriptions, as a multiple
// of the time that the look took. So a flood of requests uses at most a quarter of a
// processor for looks.
const restFactor = 3

// Connections finds the connections that receive the answers to requests. A client can make
// up an inbox, but not a connection.
//
// One look at the listener's subscriptions serves all requests that arrived before it. A
// client subscribes before it sends a request, so the look finds its subscription.
type Connections struct {
	listener Listener
	rooms    []*Room

	mu   sync.Mutex
	next func() matcher // performs the look that has not begun yet, or is nil

	last atomic.Pointer[matcher] // what the last look has found

	looking sync.Mutex // guards what follows
	rested  time.Time  // when the next look may begin
}

// matcher returns the connections that are subscribed to a subject.
type matcher = func(subject string) (connections []uint64)

// NewConnections returns the connections of a listener.
func NewConnections(listener Listener) *Connections { return &Connections{listener: listener} }

// add has each look end the requests in a room whose connection is closed.
func (c *Connections) add(room *Room) {
	if c != nil {
		c.rooms = append(c.rooms, room)
	}
}

// Of returns the connections that are subscribed to a reply subject. It blocks until a look
// at the subscriptions that has begun after the call.
func (c *Connections) Of(reply string) []uint64 {
	c.mu.Lock()
	if c.next == nil {
		c.next = sync.OnceValue(c.look)
	}
	next := c.next
	c.mu.Unlock()
	return next()(reply)
}

func (c *Connections) look() matcher {
	c.looking.Lock()
	defer c.looking.Unlock()
	time.Sleep(time.Until(c.rested))
	c.mu.Lock()
	c.next = nil // requests that arrive from here on need a later one
	c.mu.Unlock()
	began := time.Now()
	subscribed := c.listener.Subscribers()
	ended := time.Now()
	c.rested = ended.Add(restFactor * ended.Sub(began))
	c.last.Store(&subscribed)
	for _, room := range c.rooms {
		room.endGone(c.listener.Connected)
	}
	return subscribed
}

// Addresses returns the addresses and ports of the connections that are subscribed to a reply
// subject, and of those that the last look has found first: most clients subscribe once, for all
// their requests.
func (c *Connections) Addresses(reply string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, subscribed := range []matcher{c.lastOf, c.Of} {
			for _, connection := range subscribed(reply) {
				if address, open := c.listener.Address(connection); open && !yield(address) {
					return
				}
			}
		}
	}
}

func (c *Connections) lastOf(reply string) []uint64 {
	if last := c.last.Load(); last != nil {
		return (*last)(reply)
	}
	return nil
}
