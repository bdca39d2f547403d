package sim

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// TestPromises is TestChecks for the checks of lines and sessions.
func TestPromises(t *testing.T) {
	for name, test := range map[string]struct {
		what string // contained in the failure; "" for no failure
		run  func(x *checkerTest)
	}{
		"passed over":  {"passed over", func(x *checkerTest) { x.standsStill(10 * time.Second) }},
		"not for long": {"", func(x *checkerTest) { x.standsStill(time.Second) }},
		"excused by a death": {"", func(x *checkerTest) {
			x.check.lines.noteInterruption()
			x.standsStill(2500 * time.Millisecond)
		}},
		"queued":                        {"", func(x *checkerTest) { x.queued(7) }},
		"queued for another generation": {"never in a generation in force", func(x *checkerTest) { x.queued(8) }},
		"ended in time": {"", func(x *checkerTest) {
			id := x.session()
			x.sleep(20 * time.Second)
			x.endByTime(id)
		}},
		"ended after time without a leader": {"session ended early", func(x *checkerTest) {
			id, from := x.session(), x.now
			x.sleep(20 * time.Second)
			x.check.leaderReturned(from)
			x.sleep(time.Second)
			x.endByTime(id)
		}},
		"ended while a call waits":    {"while call", func(x *checkerTest) { x.endsWaiting(time.Hour) }},
		"ended after the call's wait": {"", func(x *checkerTest) { x.endsWaiting(20 * time.Second) }},
	} {
		t.Run(name, func(t *testing.T) {
			x := newCheckerTest(t)
			test.run(x)
			x.expectFailure(test.what)
		})
	}
}

// standsStill leaves a slot free for a duration while a caller waits and another peer
// is dead.
func (x *checkerTest) standsStill(d time.Duration) {
	x.config(1)
	x.check.checkProgress()
	x.faultState.beginPeerFault()
	x.ask(peer.Borrow{Pool: x.pool, Lease: hashOf(1), Wait: time.Hour})
	x.sleep(d)
}

// queued answers an enqueue with "queued", for a ticket of a generation.
func (x *checkerTest) queued(generation uint64) {
	x.named(2)
	id := x.session()
	key := entry.Key{Kind: entry.Ticket, Pool: x.pool, Session: id}
	x.write(key, entry.TicketValue{Lease: hashOf(77), Generation: generation, Wait: entry.Span(time.Minute)})
	x.enqueue(id, peer.Answer{Queued: true})
}

func (x *checkerTest) endByTime(id entry.Hash) {
	x.write(entry.Key{Kind: entry.Session, Session: id}, nil)
}

// endsWaiting ends a session by time while a call of it waits.
func (x *checkerTest) endsWaiting(wait time.Duration) {
	id := x.session()
	c := x.ask(peer.Acquire{Resource: x.resource(), Session: id, Lease: hashOf(1), Wait: wait})
	c.delivered, x.nodes[0].peer = true, new(peer.Peer)
	x.trace = nil // which would compare the view that this peer does not have
	x.sleep(22 * time.Second)
	x.endByTime(id)
}
