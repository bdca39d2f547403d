package natsapi

import (
	"iter"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvslots/kvslots/gateway/internal/ops"
)

// matcher returns the connections that are subscribed to a subject, by their numbers.
type matcher = func(subject string) (connections []uint64)

// restFactor is how long identities rests after a look at the subscriptions, as a multiple
// of the time that the look took. So a flood of requests uses at most a quarter of a
// processor for looks.
const restFactor = 3

// identities finds the connections that receive the answers to requests. A client can make
// up an inbox, but not a connection.
//
// One look at the server's subscriptions serves all requests that arrived before it. A
// client subscribes before it sends a request, so the look finds its subscription.
type identities struct {
	subscribers func() matcher
	looked      func() // called after each look, unless it is nil

	mu   sync.Mutex
	next func() matcher // performs the look that has not begun yet, or is nil

	last atomic.Pointer[matcher] // what the last look has found

	looking sync.Mutex // guards what follows
	rested  time.Time  // when the next look may begin
}

// of returns the connections that are subscribed to a reply subject. It blocks until a look
// at the subscriptions that has begun after the call.
func (i *identities) of(reply string) (connections []string) {
	for _, number := range i.numbers(reply) {
		connections = append(connections, strconv.FormatUint(number, 10))
	}
	return connections
}

func (i *identities) numbers(reply string) []uint64 {
	i.mu.Lock()
	if i.next == nil {
		i.next = sync.OnceValue(i.look)
	}
	next := i.next
	i.mu.Unlock()
	return next()(reply)
}

// lastOf returns the connections that were subscribed to a reply subject at the last look.
func (i *identities) lastOf(reply string) []uint64 {
	if last := i.last.Load(); last != nil {
		return (*last)(reply)
	}
	return nil
}

func (i *identities) look() matcher {
	i.looking.Lock()
	defer i.looking.Unlock()
	time.Sleep(time.Until(i.rested))
	i.mu.Lock()
	i.next = nil // requests that arrive from here on need a later one
	i.mu.Unlock()
	began := time.Now()
	subscribed := i.subscribers()
	ended := time.Now()
	i.rested = ended.Add(restFactor * ended.Sub(began))
	i.last.Store(&subscribed)
	if i.looked != nil {
		i.looked()
	}
	return subscribed
}

// originsOf returns the ops.Call.Origins of a request with a reply subject: the addresses of the
// connections that receive the answer. It looks at the subscriptions only if those of the last
// look do not suffice: most clients subscribe once, for all their requests.
func (s *Service) originsOf(reply string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if s.identities == nil || s.address == nil {
			yield("nats " + clientOf(reply))
			return
		}
		var tried []string
		for _, connections := range []matcher{s.identities.lastOf, s.identities.numbers} {
			for _, number := range connections(reply) {
				address, open := s.address(number)
				origin := ops.Origin(address)
				if !open || slices.Contains(tried, origin) {
					continue
				}
				if !yield(origin) {
					return
				}
				tried = append(tried, origin)
			}
		}
	}
}

// endGone ends the requests of connections that are closed.
func (s *Service) endGone(connected func(number uint64) bool) {
	for _, of := range []*room{s.borrows, s.locks, s.waitingCalls, s.others} {
		of.endGone(func(client string) bool {
			number, err := strconv.ParseUint(client, 10, 64)
			return err != nil || connected(number) // an error is that of noInbox
		})
	}
}
