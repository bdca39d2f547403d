package rules_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// The purge of a slot names the ticket that its lease was for. A view that skips
// it, and sees the next claim on the slot before the ticket's own purge, must
// not take that ticket for one that stands again: the next claim would be void
// to it, though its own peer granted it, and in a named pool its lease would be
// taken for none. Nor may it claim for that ticket a second time.
func TestSkippedPurge(t *testing.T) {
	for _, c := range []struct {
		name    string
		skipped func(e entry.Entry, n int) bool
	}{
		{"nothing skipped", func(entry.Entry, int) bool { return false }},
		{"the purge skipped", func(_ entry.Entry, n int) bool { return n == 8 }},
		{"the claim and the purge skipped", func(_ entry.Entry, n int) bool { return n == 7 || n == 8 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			pool, naming := entry.HashOf("pool", "k"), entry.Naming{Name: "k", Limit: 1, Lock: true}
			session := func(name string) entry.Hash { return entry.HashOf("session", name) }
			slot := entry.Key{Kind: entry.Slot, Pool: pool}
			stream := newStream()
			world := rules.New()
			n := 0
			write := func(e entry.Entry) uint64 {
				revision, ok := stream.write(e, stream.revision(e.Key))
				if !ok {
					t.Fatal("not written")
				}
				e = stream.log[revision-1]
				if n++; !c.skipped(e, n) {
					world.Apply(e, stream.instant(), 0)
				}
				return revision
			}
			client := func(name string) {
				write(entry.Entry{Key: entry.Key{Kind: entry.Session, Session: session(name)},
					Session: entry.SessionValue{Kind: entry.SessionClient, Idle: entry.Span(time.Minute)}})
			}
			enqueue := func(name string) uint64 {
				return write(entry.Entry{Key: entry.Key{Kind: entry.Ticket, Pool: pool, Session: session(name)},
					Wait: entry.TicketValue{Session: session(name), Lease: entry.HashOf("lease", name), Incarnation: naming.Terms(),
						Wait: entry.Span(time.Minute), TTL: entry.Span(time.Minute), Naming: naming}})
			}
			take := func(name string, ticket uint64) uint64 {
				return write(entry.Entry{Key: slot, Slot: entry.SlotValue{Lease: entry.HashOf("lease", name), Session: session(name),
					Ticket: ticket, Incarnation: naming.Terms(), TTL: entry.Span(time.Minute), Naming: naming}})
			}
			purge := func(ticket uint64) { write(entry.Entry{Key: slot, Marker: true, Ticket: ticket}) }

			client("first")             // 1
			client("second")            // 2
			take("first", 0)            // 3
			one := enqueue("first")     // 4
			two := enqueue("second")    // 5
			purge(0)                    // 6
			take("first", one)          // 7
			purge(one)                  // 8
			last := take("second", two) // 9
			barrier := stream.put(entry.Entry{Key: barrierKey(session("any"))})
			world.Apply(barrier, stream.instant(), 0)
			world.Reached(last, stream.instant())

			s := world.Pool(pool).Slot(0)
			if s.Revision != last || !s.Live() || s.Verdict() == rules.Void {
				t.Errorf("live %v, verdict %v, exact %v", s.Live(), s.Verdict(), world.Exact())
			}
			for _, able := range world.Pool(pool).Able() {
				t.Errorf("ticket %d may claim", able.Revision)
			}
		})
	}
}
