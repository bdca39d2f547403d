package sim

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
	"github.com/kvslots/kvslots/kvslots/internal/sim/stream"
)

// A peer that builds its view anew keeps the ends of the leases that the stream still
// has. The clock of the leader was set ahead since the lease was renewed: by that clock
// the lease is over.
func TestRebuildKeepsEnds(t *testing.T) {
	for _, change := range []func(*Plan){func(*Plan) {}, replicated} {
		s := newScript(t, 2, change)
		pool := s.newPool(1)
		lease := s.borrow(pool, 10*time.Second, 0)
		g := s.must(0, lease).Grant
		s.pass(5 * time.Second)
		end := s.now.Add(s.must(1, peer.Renew{Held: returnOf(lease, g).Held, TTL: 2 * time.Minute}).Grant.TTL)
		s.pass(100 * time.Millisecond)

		over := s.fault()
		s.nodes[1].kill() // a sign of life of it would restart the ttl
		s.setClock(9 * time.Minute)
		s.pass(5 * time.Second)
		s.loseTailNow(1) // a refresh of the presence
		s.nodes[0].link.reconnect()
		s.until("the peer is ready, with another view", 20*time.Second, func() bool { return s.status(0) == nil && s.counters(0).Rebuilds == 1 })
		for s.now < end.Add(-time.Second) {
			s.want(0, s.borrow(pool, time.Second, 0), peer.ErrNoSlot)
			s.pass(time.Second)
		}
		s.must(0, s.borrow(pool, time.Second, 10*time.Second))
		over()
	}
}

// The server replaces an expired key by a marker which erases a write that it has
// acknowledged meanwhile. So a peer writes no value to a key that is about to expire.
func TestNoWriteToExpiringKey(t *testing.T) {
	for name, careless := range map[string]bool{"a peer": false, "a writer without that rule": true} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, 1, func(p *Plan) { p.Traps, p.Net.Uplink = true, 2*time.Microsecond })
			const idle = time.Minute
			session := s.newSession(0, idle/2)
			over := s.fault()
			s.nodes[0].kill()
			expires := s.now.Add(idle + rules.Guard)
			s.pass(expires.Sub(s.now) - time.Second)
			s.nodes[0].start() // it gives the session its whole idle time again
			s.until("the peer is ready", 500*time.Millisecond, func() bool { return s.status(0) == nil })
			e := s.server.truth.sessions[session]
			s.pass(s.server.stream.NextExpiry().Sub(s.server.wall()))
			if late := s.server.wall().Sub(e.Time.Add(e.TTL)); late < 0 || late > 250*time.Millisecond {
				t.Fatalf("another key than the session's expires: %v after it", late)
			}
			if careless {
				key := rules.SessionKey(session)
				m := entry.NewMessage(key, e.Session, e.Revision, idle+rules.Guard)
				if a, _ := s.server.publish(&peer.Write{Message: m}); a.Outcome != peer.Written {
					t.Fatalf("%+v", a)
				}
			} else {
				s.do(0, peer.Ping{Session: session})
			}
			s.runUntil(s.now.Add(time.Second))
			if erased := s.server.stream.Met(stream.ErasedAfterAck) > 0; erased != careless {
				t.Errorf("a write was acknowledged and erased: %t\n%s", erased, s.events())
			}
			over()
		})
	}
}

// A lease that was taken from the line outlives the marker of its ticket. A peer that
// begins then finds no trace of the ticket, and must not take the lease for a void claim,
// not even when it purges one of a dead peer.
func TestLeaseOutlivesTicket(t *testing.T) {
	for _, change := range []func(*Plan){func(*Plan) {}, replicated} {
		s := newScript(t, 2, change)
		pool := s.newPool(3)
		fill := []peer.Borrow{s.borrow(pool, time.Minute, 0), s.borrow(pool, time.Minute, 0), s.borrow(pool, time.Minute, 0)}
		var granted []peer.Grant
		for _, b := range fill {
			granted = append(granted, s.must(0, b).Grant)
		}
		waits := s.begin(0, s.borrow(pool, time.Hour, 5*time.Second))
		s.pass(time.Second)
		for i, b := range fill {
			s.must(0, returnOf(b, granted[i]))
		}
		g := s.answer(waits).Grant
		if e := s.server.truth.pool(pool).slots[g.Position]; e == nil || e.Slot.Ticket == 0 || g.Position != 0 {
			t.Fatalf("the lowest slot was not taken with a ticket\n%s", s.events())
		}
		s.pass(rules.Guard + 2*time.Minute)

		over := s.fault()
		s.nodes[1].kill()
		s.nodes[1].start()
		s.must(1, peer.ReadPool{Pool: pool}) // its view is exact from then on
		generation := s.server.truth.pool(pool).config.Config.Generation
		void := entry.SlotValue{Lease: s.newHash(), Claimer: s.newHash(), Ticket: 1, Generation: generation, TTL: entry.Span(time.Minute)}
		m := entry.NewMessage(rules.SlotKey(pool, 1), void, 0, time.Minute+rules.Guard)
		if a, _ := s.server.publish(&peer.Write{Message: m}); a.Outcome != peer.Written {
			t.Fatalf("the void claim: %+v", a)
		}
		s.must(1, s.borrow(pool, time.Minute, 5*time.Second))
		s.pass(5 * time.Second) // the lease does not end
		over()
	}
}

// A Confirm is answered only when a write is acknowledged.
func TestConfirm(t *testing.T) {
	s := newScript(t, 1)
	s.must(0, peer.Confirm{})
	over := s.fault()
	s.nodes[0].link.cut(false)
	s.pass(time.Second)
	s.want(0, peer.Confirm{}, peer.ErrUnavailable)
	s.nodes[0].link.reconnect()
	s.must(0, peer.Confirm{})
	over()
}
