package sim

import (
	"os"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// schedule sends a request after some time.
func (s *script) schedule(at time.Duration, node int, r peer.Request, then func(*call)) {
	s.after(at, func() { s.ask("test", s.nodes[node], r, then) })
}

// Without any fault, 25 of 400 sessions on three gateways ended although every ping was
// answered 204. Each gateway refreshed the use that it had seen itself, and the refresh
// with the older use came last.
func TestFault17PingedSessionEnds(t *testing.T) {
	pings := []struct {
		at   time.Duration
		node int
	}{{100, 0}, {200, 1}, {300, 2}, {1000, 0}, {1400, 0}, {1800, 0}, {2200, 0}, {2600, 0}, {3500, 1}, {4400, 2}, {5300, 0}}
	sessions := 40
	if os.Getenv("KVSLOTS_SOAK") != "" {
		sessions = 2000
	}
	for seed := range sessions {
		s := newScript(t, 3, seeded(seed), func(p *Plan) {
			p.Net.Lag = time.Duration(seed%40) * 5 * time.Millisecond
			p.Net.Spikes = 0.02
			p.Net.Feed = time.Duration(1+seed%7) * time.Millisecond
		})
		session := s.newSession(seed%3, time.Second)
		answered := 0
		for _, ping := range pings {
			s.schedule(ping.at*time.Millisecond, ping.node, peer.Ping{Session: session}, func(c *call) {
				if answered++; c.answer.Err != nil {
					t.Errorf("seed %d: the ping at %v: %v\n%s", seed, ping.at*time.Millisecond, c.answer.Err, s.events())
				}
			})
		}
		s.until("all pings are answered", 10*time.Second, func() bool { return answered == len(pings) })
		s.must(1, peer.EndSession{Session: session})
	}
}

// One lost refresh ended a session with a short idle timeout, so that three sessions
// held a semaphore of two slots. One gateway's writes were lost for 0.3 s.
func TestFault18LostRefreshEndsSession(t *testing.T) {
	for at := time.Duration(0); at < time.Second; at += 25 * time.Millisecond {
		s := newScript(t, 2)
		on := named("semaphore", 2, false)
		sessions := []entry.Hash{s.newSession(0, time.Second), s.newSession(0, time.Second)}
		var grants []peer.Grant
		for _, session := range sessions {
			grants = append(grants, s.must(0, s.acquire(on, session, time.Minute, 0)).Grant)
			s.keepPinging(session, 400*time.Millisecond)
		}
		over := s.fault()
		s.after(2*time.Second+at, func() { s.plan.Net.LoseWrite = 1 })
		s.after(2*time.Second+at+300*time.Millisecond, func() { s.plan.Net.LoseWrite = 0 })
		s.pass(2*time.Second + at + 310*time.Millisecond)
		over()
		rival := s.newSession(1, time.Minute)
		for range 20 {
			s.want(1, s.acquire(on, rival, time.Minute, 0), peer.ErrNoSlot)
			s.pass(100 * time.Millisecond)
		}
		for i, session := range sessions {
			s.must(1, releaseOf(on, session, grants[i]))
		}
	}
}

// keepPinging pings a session at peer 0 until the run ends.
func (s *script) keepPinging(session entry.Hash, every time.Duration) {
	s.schedule(every, 0, peer.Ping{Session: session}, func(c *call) {
		if isAny(c.answer.Err, peer.ErrSessionGone) {
			s.fail("fault 18", "a pinged session has ended")
		}
	})
	s.after(every, func() { s.keepPinging(session, every) })
}

// Another gateway purged an acknowledged ticket, and its session's wait was refused as
// not_enqueued: the session had enqueued at A first, whose connection stalled (502),
// and then at B. When A was connected again, A purged the ticket, which it took for its
// own.
func TestFault5QueuedIsPurgedElsewhere(t *testing.T) {
	for _, stall := range []time.Duration{2 * time.Second, 5*time.Second + 20*time.Millisecond, 6 * time.Second, 9 * time.Second} {
		for _, pause := range []time.Duration{0, 2 * time.Millisecond, 50 * time.Millisecond, 2 * time.Second} {
			s := newScript(t, 2, seeded(int(stall+pause)))
			on := named("lock", 1, true)
			holder, session := s.newSession(1, time.Hour), s.newSession(1, time.Hour)
			held := s.must(1, s.acquire(on, holder, 5*time.Minute, 0)).Grant
			s.pass(time.Second)

			over := s.fault()
			r := s.enqueue(on, session, 5*time.Minute)
			asked := s.begin(0, r) // its barrier is under way
			s.nodes[0].link.stalledUntil = s.now.Add(stall)
			first := s.answer(asked)
			s.pass(pause)
			second := s.do(1, r)
			if !(first.Err == nil && first.Queued || isAny(first.Err, peer.ErrUnavailable)) {
				t.Fatalf("at the first gateway: %s", describeAnswer(&first))
			}
			if !(second.Err == nil && second.Queued || isAny(second.Err, peer.ErrAlreadyEnqueued)) {
				t.Fatalf("at the second gateway: %s", describeAnswer(&second))
			}
			s.pass(stall + time.Second)
			over()

			waits := s.begin(1, await(on, session, 5*time.Second))
			s.pass(time.Second)
			s.must(1, releaseOf(on, holder, held))
			if a := s.answer(waits); a.Err != nil {
				t.Fatalf("stall %v, pause %v: what was queued came to %v\n%s", stall, pause, a.Err, s.events())
			}
		}
	}
}

// A session that had been answered "queued" was refused as not_enqueued, after its
// client had canceled a wait during an outage.
func TestFault23NotEnqueuedAfterQueued(t *testing.T) {
	for _, gap := range []time.Duration{time.Millisecond, 300 * time.Millisecond, 4 * time.Second, 8 * time.Second} {
		for _, again := range []int{0, 1} {
			s := newScript(t, 2, replicated)
			on := named("lock", 1, true)
			holder, session := s.newSession(1, time.Hour), s.newSession(0, time.Hour)
			held := s.must(1, s.acquire(on, holder, 5*time.Minute, 0)).Grant
			if a := s.must(0, s.enqueue(on, session, 5*time.Minute)); !a.Queued {
				t.Fatalf("%s, not queued", describeAnswer(&a))
			}
			waits := s.begin(0, await(on, session, 10*time.Second))
			s.pass(time.Second)
			over := s.fault()
			s.server.stream.BeginGap(s.server.wall())
			s.server.silenceReadings()
			s.pass(gap / 2)
			waits.giveUp(peer.ErrPlaceKept)
			s.pass(gap / 2)
			s.server.stream.EndGap(s.server.wall())
			s.server.resumeReadings()
			s.pass(10 * time.Second)
			over()
			if waits.end == 0 {
				t.Fatal("the wait is not answered")
			}
			waits = s.begin(again, await(on, session, 10*time.Second))
			s.must(1, releaseOf(on, holder, held))
			if a := s.answer(waits); a.Err != nil {
				t.Fatalf("what was queued came to %v\n%s", a.Err, s.events())
			}
		}
	}
}

// A session that had enqueued, was granted the lock and did not wait in time, was
// refused as not_enqueued instead of lease_expired.
func TestFault23LeaseExpired(t *testing.T) {
	for _, peers := range []int{1, 3} {
		s := newScript(t, peers)
		on := named("lock", 1, true)
		last := peers - 1
		holder, session := s.newSession(0, time.Hour), s.newSession(0, time.Hour)
		held := s.must(0, s.acquire(on, holder, 5*time.Minute, 0)).Grant
		s.must(last, s.enqueue(on, session, 2*time.Second))
		s.must(0, releaseOf(on, holder, held))
		s.pass(5 * time.Second)
		s.must(0, s.acquire(on, holder, time.Second, 0)) // the lock is free again
		s.want(0, await(on, session, 0), peer.ErrLeaseExpired)
		s.want(last, await(on, session, 0), peer.ErrNotEnqueued)
	}
}

// A renewal in time at another gateway was refused, and ended the lease up to 1 s
// early: that gateway counts from the arrival of the claim, and the caller from the
// answer.
func TestFault13RenewalInTimeElsewhere(t *testing.T) {
	for _, late := range []time.Duration{0, 300 * time.Millisecond, 700 * time.Millisecond} {
		s := newScript(t, 2)
		pool := s.newPool(1)
		// The peer learns of the claim neither from its view nor from an
		// acknowledgement, so that its answer is late.
		s.nodes[0].link.hold()
		s.plan.Net.Ack = 3 * late
		b := s.borrow(pool, 10*time.Second, 0)
		asked := s.begin(0, b)
		s.pass(late)
		s.plan.Net.Ack = 0
		s.nodes[0].link.release()
		grant := s.answer(asked).Grant
		s.pass(grant.TTL - 500*time.Millisecond)
		renewed := s.must(1, peer.Renew{Held: returnOf(b, grant).Held, TTL: 10 * time.Second})
		if renewed.Grant.Fence != grant.Fence || renewed.Grant.TTL < 9*time.Second {
			t.Errorf("renewed to %s", describeAnswer(&renewed))
		}
		s.pass(9 * time.Second)
		s.want(0, s.borrow(pool, time.Second, 0), peer.ErrNoSlot)
	}
}

// A session ended before the time that its last answer had promised: the leader's clock
// had been stepped ahead, by too little to be noticed, and a peer whose view was behind
// took an old refresh of the session for a new one.
func TestPromiseAfterClockStep(t *testing.T) {
	for _, change := range []func(*Plan){func(*Plan) {}, replicated} {
		for ahead := -4 * time.Second; ahead <= 4*time.Second; ahead += time.Second {
			s := newScript(t, 3, change)
			session := s.newSession(0, time.Second)
			s.pass(500 * time.Millisecond)
			late := s.nodes[1].link
			late.hold() // its view is behind
			s.server.setClock(ahead)
			s.server.stream.StepClock(ahead, s.server.wall())
			s.pass(700 * time.Millisecond)
			s.must(0, peer.Ping{Session: session}) // writes a refresh
			s.pass(1500 * time.Millisecond)
			late.release()
			s.pass(100 * time.Millisecond)
			s.must(1, peer.Ping{Session: session}) // promises another second
			s.pass(990 * time.Millisecond)
			s.must(2, peer.Ping{Session: session})
		}
	}
}
