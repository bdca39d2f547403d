package sim

import (
	"maps"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/reads"
)

// TestChecks shows that each check fails for wrong answers and passes for right ones.
func TestChecks(t *testing.T) {
	a, b, c := hashOf(1), hashOf(2), hashOf(3)
	for name, test := range map[string]struct {
		what string // contained in the failure; "" for no failure
		run  func(x *checkerTest)
	}{
		"two leases": {"", func(x *checkerTest) { x.config(2); x.borrow(a, 0); x.borrow(b, 1) }},
		"returned and lent": {"", func(x *checkerTest) {
			x.config(1)
			x.borrow(a, 0)
			r := x.ask(peer.Return{Held: x.held(a)})
			x.write(x.slotKey(0), nil)
			r.finish(peer.Answer{})
			x.borrow(b, 0)
		}},
		"two holders": {"lease ended early", func(x *checkerTest) { x.config(1); x.borrow(a, 0); x.borrow(b, 0) }},
		"over-issue": {"2 leases are live", func(x *checkerTest) {
			x.config(2)
			x.borrow(a, 0)
			x.borrow(b, 1)
			x.giveBack(a, 0)
			x.config(1)
			x.borrow(c, 0)
		}},
		"beyond the count":       {"over-issue", func(x *checkerTest) { x.config(1); x.borrow(a, 0); x.borrow(b, 1) }},
		"not the lowest":         {"lowest free", func(x *checkerTest) { x.config(2); x.borrow(a, 1) }},
		"left for a ticket":      {"", func(x *checkerTest) { x.config(2); x.presence(); x.ticket(0, a); x.borrow(b, 1) }},
		"left for a dead ticket": {"lowest free", func(x *checkerTest) { x.config(2); x.ticket(0, a); x.borrow(b, 1) }},
		"left for a served ticket": {"lowest free", func(x *checkerTest) {
			x.config(1)
			x.presence()
			x.served(a, x.ticket(0, a))
			x.config(3)
			x.borrow(b, 2)
		}},
		"left for a ticket whose withdrawn claim is back": {"", func(x *checkerTest) {
			x.config(3)
			x.presence()
			x.claim(0, a)
			x.ticket(0, a)
			x.borrow(b, 2)
		}},
		"told again for less": {"lease ended early", func(x *checkerTest) {
			x.config(1)
			key := hashOf(60)
			lease := keyedLease(key, entry.Hash{})
			var fence uint64
			for _, ttl := range []time.Duration{time.Minute, 20 * time.Second} {
				c := x.ask(peer.Borrow{Pool: x.pool, Lease: lease, TTL: time.Minute, Request: key})
				if fence == 0 {
					fence = x.claim(0, lease)
				} else {
					x.renew(lease, 0, fence)
				}
				a := x.grant(0, fence)
				a.Grant.TTL = ttl
				c.finish(a)
				x.sleep(time.Second)
			}
			x.sleep(30 * time.Second)
			x.write(x.slotKey(0), nil)
		}},
		"no claim": {"no such claim", func(x *checkerTest) {
			x.config(1)
			x.answer(peer.Borrow{Pool: x.pool, Lease: a, TTL: time.Minute}, x.grant(0, 99))
		}},
		"purged": {"lease ended early", func(x *checkerTest) { x.config(1); x.borrow(a, 0); x.write(x.slotKey(0), nil) }},
		"expired": {"", func(x *checkerTest) {
			x.config(1)
			x.borrow(a, 0)
			x.sleep(21 * time.Second)
			x.write(x.slotKey(0), nil)
		}},
		"another generation": {"lease ended early", func(x *checkerTest) {
			x.config(1)
			x.borrow(a, 0)
			x.write(entry.Key{Kind: entry.Config, Pool: x.pool}, entry.ConfigValue{Count: 1, Generation: 8})
		}},
		"granted too late": {"not in the stream", func(x *checkerTest) { x.grantedTooLate(a) }},
		"wrong false": {"live all the time", func(x *checkerTest) {
			x.config(1)
			x.borrow(a, 0)
			x.answer(peer.Return{Held: x.held(a)}, peer.Answer{Err: peer.ErrNotHeld})
		}},
		"returned twice": {"had ended before", func(x *checkerTest) {
			x.config(1)
			x.borrow(a, 0)
			x.giveBack(a, 0)
			x.answer(peer.Return{Held: x.held(a)}, peer.Answer{})
		}},
		"false after true": {"", func(x *checkerTest) {
			x.config(1)
			x.borrow(a, 0)
			x.giveBack(a, 0)
			x.answer(peer.Return{Held: x.held(a)}, peer.Answer{Err: peer.ErrNotHeld})
		}},
		"not held": {"live all the time", func(x *checkerTest) {
			x.config(1)
			x.borrow(a, 0)
			x.answer(peer.Renew{Held: x.held(a), TTL: time.Second}, peer.Answer{Err: peer.ErrNotHeld})
		}},
		"renewed when over": {"had ended before", func(x *checkerTest) {
			x.config(1)
			f := x.borrow(a, 0)
			x.giveBack(a, 0)
			x.answer(peer.Renew{Held: x.held(a), TTL: time.Minute}, x.grant(0, f))
		}},
		"another fence": {"another fence", func(x *checkerTest) {
			x.config(1)
			f := x.borrow(a, 0)
			x.answer(peer.Renew{Held: x.held(a), TTL: time.Minute}, x.grant(0, f+1))
		}},
		"no pool": {"registered all the time", func(x *checkerTest) {
			x.config(1)
			x.answer(peer.ReadPool{Pool: x.pool}, peer.Answer{Err: peer.ErrNoPool})
		}},
		"no slot": {"free and unclaimed", func(x *checkerTest) {
			x.config(2)
			x.borrow(a, 0)
			x.answer(peer.Borrow{Pool: x.pool, Lease: b}, peer.Answer{Err: peer.ErrNoSlot})
		}},
		"rightly no slot": {"", func(x *checkerTest) {
			x.config(1)
			x.borrow(a, 0)
			x.answer(peer.Borrow{Pool: x.pool, Lease: b}, peer.Answer{Err: peer.ErrNoSlot})
		}},
		"refused early": {"of its wait", func(x *checkerTest) {
			x.config(1)
			x.borrow(a, 0)
			x.answer(peer.Borrow{Pool: x.pool, Lease: b, Wait: time.Second}, peer.Answer{Err: peer.ErrNoSlot})
		}},
		"inspected too few": {"at least 1 leases", func(x *checkerTest) {
			x.config(1)
			x.borrow(a, 0)
			x.answer(peer.ReadPool{Pool: x.pool}, readOf(reads.State{Count: 1, Available: 1}))
		}},
		"inspected too many": {"at most 0 slots", func(x *checkerTest) {
			x.config(1)
			x.answer(peer.ReadPool{Pool: x.pool}, readOf(reads.State{Count: 1, InUse: 1}))
		}},
		"another count": {"another count", func(x *checkerTest) {
			x.config(1)
			x.answer(peer.Register{Pool: x.pool, Count: 2}, readOf(reads.State{Count: 1, Available: 1}))
		}},
		"mismatch": {"no other terms", func(x *checkerTest) {
			x.named(2)
			x.answer(peer.Acquire{Resource: x.resource(), Lease: a}, peer.Answer{Err: peer.ErrLimitMismatch})
		}},
		"rightly a mismatch": {"", func(x *checkerTest) {
			x.named(3)
			x.claim(0, c)
			x.answer(peer.Acquire{Resource: x.resource(), Lease: a}, peer.Answer{Err: peer.ErrLimitMismatch})
		}},
		"cap": {"no such cap", func(x *checkerTest) {
			x.answer(peer.Acquire{Resource: x.resource(), Lease: a}, peer.Answer{Err: peer.ErrMaxLocks})
		}},
		"session gone": {"certainly alive", func(x *checkerTest) {
			id := x.session()
			x.sleep(4 * time.Second)
			x.answer(peer.Ping{Session: id}, peer.Answer{Err: peer.ErrSessionGone})
		}},
		"rightly gone": {"", func(x *checkerTest) {
			id := x.session()
			x.sleep(11 * time.Second)
			x.answer(peer.Ping{Session: id}, peer.Answer{Err: peer.ErrSessionGone})
		}},
		"session purged": {"session ended early", func(x *checkerTest) { x.write(entry.Key{Kind: entry.Session, Session: x.session()}, nil) }},
		"ended, and alive": {"ended before", func(x *checkerTest) {
			id := x.session()
			x.endSession(id)
			x.answer(peer.Ping{Session: id}, peer.Answer{})
		}},
		"ended twice": {"", func(x *checkerTest) {
			id := x.session()
			x.endSession(id)
			x.answer(peer.EndSession{Session: id}, peer.Answer{Err: peer.ErrSessionGone})
		}},
		"not enqueued": {"was answered queued", func(x *checkerTest) {
			id := x.session()
			x.enqueue(id, peer.Answer{Queued: true})
			x.await(id, peer.ErrNotEnqueued)
		}},
		"rightly not":      {"", func(x *checkerTest) { x.await(x.session(), peer.ErrNotEnqueued) }},
		"already enqueued": {"has not enqueued", func(x *checkerTest) { x.enqueue(x.session(), peer.Answer{Err: peer.ErrAlreadyEnqueued}) }},
		"enqueued twice": {"enqueued before", func(x *checkerTest) {
			id := x.session()
			x.enqueue(id, peer.Answer{Queued: true})
			x.enqueue(id, peer.Answer{Queued: true})
		}},
		"expired too early": {"cannot have expired", func(x *checkerTest) {
			id := x.session()
			x.enqueue(id, peer.Answer{Queued: true})
			x.await(id, peer.ErrLeaseExpired)
		}},
		"enqueued again after a misread age": {"", func(x *checkerTest) {
			id := x.session()
			x.enqueue(id, peer.Answer{Queued: true})
			x.server.misreadAt = x.now
			x.enqueue(id, peer.Answer{Queued: true})
		}},
		"enqueued twice, an age misread before": {"enqueued before", func(x *checkerTest) {
			id := x.session()
			x.server.misreadAt = x.now
			x.sleep(time.Second)
			x.enqueue(id, peer.Answer{Queued: true})
			x.enqueue(id, peer.Answer{Queued: true})
		}},
		"ticket":         {"not in line", func(x *checkerTest) { x.config(1); x.served(a, 99) }},
		"rightly served": {"", func(x *checkerTest) { x.config(1); x.served(a, x.ticket(0, a)) }},
		"served twice": {"not in line", func(x *checkerTest) {
			x.config(2)
			x.write(x.slotKey(0), entry.SlotValue{Lease: a, Ticket: x.ticket(0, a), Generation: 7, TTL: entry.Span(time.Minute)})
			x.served(a, x.last[x.ticketKey(0)])
		}},
		"order":         {"order of the line", func(x *checkerTest) { x.overtake(a, b, c) }},
		"not the owner": {"held the lock", func(x *checkerTest) { x.owned(a); x.answer(peer.ReleaseOwned{Pool: x.pool, Owner: "b"}, peer.Answer{}) }},
		"rightly not owner": {"", func(x *checkerTest) {
			x.owned(a)
			x.answer(peer.ReleaseOwned{Pool: x.pool, Owner: "b"}, peer.Answer{Err: peer.ErrNotOwner})
		}},
		"own lock": {"held the lock", func(x *checkerTest) {
			x.owned(a)
			x.answer(peer.ReleaseOwned{Pool: x.pool, Owner: "a"}, peer.Answer{Err: peer.ErrNotHeld})
		}},
		"unanswered": {"has no answer", func(x *checkerTest) { x.ask(peer.ReadPool{Pool: x.pool}); x.sleep(10 * time.Second) }},
		"stall": {"stall", func(x *checkerTest) {
			x.config(1)
			x.check.checkProgress()
			x.sleep(time.Minute)
			x.ask(peer.Borrow{Pool: x.pool, Lease: a, Wait: time.Hour})
			x.sleep(time.Minute)
		}},
		"left over": {"left over", func(x *checkerTest) { x.config(1); x.claim(0, a); x.check.checkEnd() }},
		"presence left over": {"not a living peer's", func(x *checkerTest) {
			x.presence()
			x.check.checkEnd()
		}},
		"too many writes": {"writes have reached", func(x *checkerTest) { x.server.messages = 1000; x.check.checkEnd() }},
		"too many claims": {"claims for", func(x *checkerTest) { x.check.claims = 60; x.check.checkEnd() }},
		"too many rebuilds": {"built their views", func(x *checkerTest) {
			x.met.addN("peer: rebuilds", 2)
			x.loseData(func() {})
			x.check.checkEnd()
		}},
		"nothing left over": {"", func(x *checkerTest) { x.config(1); x.check.checkEnd() }},
		"revived": {"revived", func(x *checkerTest) {
			x.config(1)
			x.borrow(a, 0)
			x.giveBack(a, 0)
			x.claim(0, a)
			x.check.losses.onReread()
		}},
		"lost": {"", func(x *checkerTest) {
			x.config(1)
			x.borrow(a, 0)
			x.loseData(func() { x.server.stream.LoseTail(1, x.server.wall()) })
			x.last[x.slotKey(0)] = 0
			x.sleep(2 * time.Second)
			x.borrow(b, 0)
		}},
		"deletion lost": {"", func(x *checkerTest) {
			x.config(1)
			f := x.borrow(a, 0)
			x.sleep(time.Millisecond)
			d, registered := x.ask(peer.Delete{Pool: x.pool}), maps.Clone(x.last)
			x.write(entry.Key{Kind: entry.Config, Pool: x.pool}, nil)
			x.loseData(func() { x.server.stream.LoseTail(1, x.server.wall()) })
			x.last = registered
			d.finish(peer.Answer{})
			x.sleep(30 * time.Second) // until its peer must have noticed the loss
			r := x.ask(peer.Renew{Held: x.held(a), TTL: 20 * time.Second})
			x.renew(a, 0, f)
			r.finish(x.grant(0, f))
		}},
		"renewed by no write": {"not renewed", func(x *checkerTest) {
			x.config(1)
			f := x.borrow(a, 0)
			x.answer(peer.Renew{Held: x.held(a), TTL: time.Minute}, x.grant(0, f))
		}},
		"renewed over a deletion": {"not renewed", func(x *checkerTest) {
			x.config(1)
			f := x.borrow(a, 0)
			x.sleep(time.Millisecond)
			x.ask(peer.Delete{Pool: x.pool})
			r := x.ask(peer.Renew{Held: x.held(a), TTL: 20 * time.Second})
			x.write(entry.Key{Kind: entry.Config, Pool: x.pool}, nil)
			x.renew(a, 0, f)
			r.finish(x.grant(0, f))
		}},
		"renewed when deleted": {"had ended before", func(x *checkerTest) {
			x.config(1)
			f := x.borrow(a, 0)
			x.sleep(time.Millisecond)
			d := x.ask(peer.Delete{Pool: x.pool})
			x.write(entry.Key{Kind: entry.Config, Pool: x.pool}, nil)
			d.finish(peer.Answer{})
			x.sleep(time.Millisecond)
			x.answer(peer.Renew{Held: x.held(a), TTL: time.Minute}, x.grant(0, f))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			x := newCheckerTest(t)
			test.run(x)
			x.expectFailure(test.what)
		})
	}
}
