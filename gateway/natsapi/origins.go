package natsapi

import (
	"iter"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/gateway/natsapi/internal/delivery"
)

// Listener is the server to which the clients of a service connect; natsembed.Server.Clients is one.
type Listener interface {
	// Subscribers returns a function that returns the connections that are subscribed to a
	// subject, by their numbers.
	Subscribers() func(subject string) (connections []uint64)

	// Address returns the address and port of a connection.
	Address(connection uint64) (address string, open bool)

	// Listened reports whether a client is subscribed to a subject now.
	Listened(subject string) bool

	// ClientsReply reports whether clients may publish to the reply subject of what they
	// receive, and may receive what is sent to others.
	ClientsReply() bool
}

// clients iterates over those for which the request's place may count: the connections that hear the answer, or the inbox
// that it names where that is not known. A client can name another one's inbox, but its answers are heard only at a subject
// that the other one has drawn. So a request that waits for an answer without a subscriber has no client, and what only changes
// something counts for no client.
func (r *request) clients() iter.Seq[string] {
	s, inbox := r.service, delivery.ClientOf(r.reply)
	return func(yield func(string) bool) {
		switch {
		case s.addresses == nil || r.reply == "":
			yield(inbox)
		case s.addresses.listener.Listened(r.reply):
			hearing := s.addresses.known(r.reply)
			if len(hearing) == 0 {
				yield(inbox)
			}
			for _, connection := range hearing {
				if !yield("connection " + strconv.FormatUint(connection, 10)) {
					return
				}
			}
		case !r.op.Waits():
			yield(delivery.ClientOf(""))
		}
	}
}

// isUnheard reports whether the answer to a request that waits has no subscriber, at a server that only a round trip can ask: once
// half of what its client may have open, or of all, is open.
func (r *request) isUnheard(call *ops.Call) bool {
	return r.service.addresses == nil && call.Cancels() && r.reply != "" && r.place.isCrowded() && !r.service.sender.Listens(r.reply)
}

// Origins iterates over the addresses of the connections that receive the answer, or over the
// inbox if there is no Listener.
func (r *request) Origins() iter.Seq[string] {
	s, reply := r.service, r.reply
	return func(yield func(string) bool) {
		if s.addresses == nil {
			yield("nats " + delivery.ClientOf(reply))
			return
		}
		var tried []string
		for address := range s.addresses.of(reply) {
			origin := ops.Origin(address)
			if slices.Contains(tried, origin) {
				continue
			}
			if !yield(origin) {
				return
			}
			tried = append(tried, origin)
		}
	}
}

// addresses finds the connections that receive the answers to requests. A client can make up an
// inbox, but not a connection.
//
// One look at the listener's subscriptions serves all requests that arrived before it. A client
// subscribes before it sends a request, so the look finds its subscription.
type addresses struct {
	listener Listener

	mu   sync.Mutex
	next func() matcher // performs the look that has not begun yet, or is nil

	looking sync.Mutex
	last    atomic.Pointer[matcher] // what the last look has found
	rested  atomic.Int64            // Unix nanoseconds from which known may look again
}

type matcher = func(subject string) (connections []uint64)

// of returns the addresses and ports of the connections that are subscribed to a reply subject,
// and of those that the last look has found first: most clients subscribe once, for all their
// requests.
func (a *addresses) of(reply string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, subscribed := range []matcher{a.lastOf, a.nextOf} {
			for _, connection := range subscribed(reply) {
				if address, open := a.listener.Address(connection); open && !yield(address) {
					return
				}
			}
		}
	}
}

func (a *addresses) lastOf(reply string) []uint64 {
	if last := a.last.Load(); last != nil {
		return (*last)(reply)
	}
	return nil
}

// known returns the connections that are subscribed to a reply subject. It looks anew for one that the last look has not
// found, unless it has looked for a tenth of the time: then it returns none.
func (a *addresses) known(reply string) []uint64 {
	hearing := a.lastOf(reply)
	if began := time.Now(); len(hearing) == 0 && began.UnixNano() >= a.rested.Load() {
		hearing = a.nextOf(reply)
		ended := time.Now()
		a.rested.Store(ended.Add(9 * ended.Sub(began)).UnixNano())
	}
	return hearing
}

// nextOf blocks until a look at the subscriptions that has begun after the call.
func (a *addresses) nextOf(reply string) []uint64 {
	a.mu.Lock()
	if a.next == nil {
		a.next = sync.OnceValue(a.look)
	}
	next := a.next
	a.mu.Unlock()
	return next()(reply)
}

func (a *addresses) look() matcher {
	a.looking.Lock()
	defer a.looking.Unlock()
	a.mu.Lock()
	a.next = nil // requests that arrive from here on need a later one
	a.mu.Unlock()
	subscribed := a.listener.Subscribers()
	a.last.Store(&subscribed)
	return subscribed
}
