package rules

import (
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// A named pool has no configuration. Its terms, the limit and whether it is a
// lock or a semaphore, are those of what is in it: of the live slots, or, when
// there are none, of the first ticket in the line. So they are a function of
// what the bucket holds now, and views that skipped different things agree on
// them as soon as they are exact.
//
// A claim is void when at its own revision a live slot had other terms, or, where
// there was no lease, a ticket before it in the line. Like any claim it counts as a
// slot until it is withdrawn, which only makes the others careful: while the live
// slots disagree, nobody claims and nobody is refused. A ticket that had other
// terms than those in force when it came is void as well; its own peer takes it
// out of the line.

// strayTime is how long a slot may stay taken by something that holds no slot,
// before whoever sees it purges it. Who left it there does that much sooner.
const strayTime = time.Second

// derive brings the terms of a named pool up to date.
func (w *World) derive(p *Pool, now Instant) {
	if p.naming.Name == "" {
		return
	}
	held, n := p.config.Incarnation, p.inForce()
	terms := n.Terms()
	switch {
	case terms == held:
		return
	case held == 0:
		w.named++
	case terms == 0:
		w.named--
		p.idleSince = now
	}
	p.config = entry.ConfigValue{Count: n.Limit, Incarnation: terms}
	if terms != 0 {
		p.naming = n
	}
	w.touch(p)
}

// inForce are the terms by which the pool is in use; the zero Naming when it is
// not. Of live slots that disagree, those go on that were in force before.
func (p *Pool) inForce() entry.Naming {
	if _, still := p.held[p.config.Incarnation]; still {
		return p.naming
	}
	least := uint64(0)
	for terms := range p.held {
		if least == 0 || terms < least {
			least = terms
		}
	}
	if least != 0 {
		return entry.NamingOf(p.naming.Name, least)
	}
	for t := p.line.first; t != nil; t = t.next {
		if t.present() {
			return entry.NamingOf(p.naming.Name, t.Value.Terms())
		}
	}
	return entry.Naming{}
}

// recount counts a slot among the live ones of its terms, or no more.
func (p *Pool) recount(s *Slot) {
	if s.counted != 0 {
		if p.held[s.counted]--; p.held[s.counted] == 0 {
			delete(p.held, s.counted)
		}
		s.counted = 0
	}
	if s.Live() && s.Value.Name != "" {
		if p.held == nil {
			p.held = map[uint64]int{}
		}
		s.counted = s.Value.Terms()
		p.held[s.counted]++
	}
}

// name notes that the pool is a named one.
func (p *Pool) name(n entry.Naming) {
	if n.Name != "" && p.naming.Name == "" && p.config.Incarnation == 0 {
		p.naming = entry.Naming{Name: n.Name, Limit: n.Limit, Lock: n.Lock}
	}
}

// configured tells whether the pool is a registered one, and no named one.
func (p *Pool) configured() bool { return p.naming.Name == "" }

// Disputed tells whether there are live slots of a named pool under different
// terms. Some of them are claims that their peers are about to withdraw.
func (p *Pool) Disputed() bool { return len(p.held) > 1 }

// disagrees tells whether a claim is under other terms than a live slot, or than
// a ticket that hinders it.
func (p *Pool) disagrees(s *Slot) bool {
	if s.Value.Name == "" {
		return false
	}
	terms := s.Value.Terms()
	if _, own := p.held[terms]; len(p.held) > 1 || len(p.held) == 1 && !own {
		return true
	}
	return p.hindered(terms, s.place(), s)
}

// hindered tells whether a ticket under other terms waits before that place. It
// hinders nobody where there is a lease under these terms: it had let its turn pass
// when that was granted, or came later.
func (p *Pool) hindered(terms, place uint64, claim *Slot) bool {
	for t := p.line.first; t != nil && t.Revision < place; t = t.next {
		if t.present() && !t.session.stalled && t.Value.Terms() != terms {
			return !p.leased(terms, claim)
		}
	}
	return false
}

// leased tells whether there is a live slot under those terms, other than the
// given one, that is no claim in doubt.
func (p *Pool) leased(terms uint64, other *Slot) bool {
	return slices.ContainsFunc(p.slots, func(s *Slot) bool {
		return s != nil && s != other && s.counted == terms && (s.claim == nil || !slices.Contains(p.doubted, s))
	})
}

// judgeTicket finds out whether a ticket that has just come agrees with the
// terms in force. Those may be about to go, with a claim that is withdrawn.
func (w *World) judgeTicket(t *Ticket, inForce uint64, now Instant) {
	disagrees := t.Value.Name != "" && inForce != 0 && inForce != t.Value.Terms()
	t.unsure = !w.Exact() || disagrees && (t.Pool.Disputed() || t.Pool.InDoubt(now))
	t.void = disagrees && !t.unsure
}

// Unsure tells whether the view was not exact when the ticket came, or it was not
// decided who has the terms, so that it cannot be known whether it is void.
func (t *Ticket) Unsure() bool { return t.unsure }

// Agreed tells whether all that is in a named pool agrees.
func (p *Pool) Agreed() bool {
	if p.Disputed() {
		return false
	}
	for t := p.line.first; t != nil; t = t.next {
		if t.session.Present && !t.Value.Spent && t.Value.Terms() != p.config.Incarnation {
			return false
		}
	}
	return true
}

// settleStrays has the slots that are not live any more purged soon, and lets
// those live on that are live after all.
func (w *World) settleStrays(p *Pool, now Instant) {
	for _, s := range p.strays {
		s.stray = false
		switch stale := s.Stale(); {
		case s.due.index < 0 || stale == s.hurried:
		case stale:
			s.hurried = true
			w.dues.set(&s.due, min(s.ends, now.Add(strayTime)))
		default:
			s.hurried = false
			w.dues.set(&s.due, s.ends)
		}
	}
	p.strays = p.strays[:0]
}

// Naming is the name of a named pool and the terms it has, or had last; the zero
// Naming for another.
func (p *Pool) Naming() entry.Naming { return p.naming }

// IdleSince is when the last one let go of a named pool; ok is false while
// somebody holds it or waits for it.
func (p *Pool) IdleSince() (at Instant, ok bool) {
	return p.idleSince, p.naming.Name != "" && !p.Registered()
}

// Ensure is the pool of that id, made if nothing is known of it: a borrower may
// be the first to come. Discard undoes it.
func (w *World) Ensure(id entry.Hash) *Pool { return w.pool(id) }

// Discard forgets a pool of which nothing is known.
func (w *World) Discard(id entry.Hash) {
	if p := w.pools[id]; p != nil && !p.queued && p.empty() {
		delete(w.pools, id)
	}
}

// EachPool calls yield for every pool of which anything is known, in no order,
// until it returns false.
func (w *World) EachPool(yield func(*Pool) bool) {
	for _, p := range w.pools {
		if !yield(p) {
			return
		}
	}
}

// EachAble calls yield for every pool with a ticket for which there is a permit.
func (w *World) EachAble(yield func(*Pool) bool) {
	for p := range w.able {
		if !yield(p) {
			return
		}
	}
}

// Named is the number of named pools that are held or waited for.
func (w *World) Named() int { return w.named }
