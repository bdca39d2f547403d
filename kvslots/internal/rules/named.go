package rules

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// A named pool has no configuration. Its terms, the limit and whether it is a
// lock or a semaphore, are those of whatever is in it: of the live slots and of
// the tickets that stand in its line. Whoever comes first sets them, all others
// have to agree, and when the last has gone the next may set others.
//
// A claim under other terms than those in force at its own revision is void,
// like any claim on a pool of another incarnation. So is a ticket: it never
// stands in the line, and its own peer takes it out.

// strayTime is how long a slot may stay taken by something that holds no slot,
// before whoever sees it purges it. Its own peer does that much sooner.
const strayTime = time.Second

// derive brings the terms of a named pool up to date.
func (w *World) derive(p *Pool, now Instant) {
	if p.config.Incarnation != 0 && (p.naming.Name == "" || p.supported()) {
		return
	}
	held := p.config.Incarnation
	p.config = entry.ConfigValue{}
	if n, ok := p.eldest(); ok {
		n.Nonce = entry.Hash{}
		p.naming = n
		p.config = entry.ConfigValue{Count: n.Limit, Incarnation: n.Terms()}
	}
	switch {
	case p.config.Incarnation == held:
		return
	case held == 0:
		w.named++
	case p.config.Incarnation == 0:
		w.named--
		p.idleSince = now
	}
	for _, s := range p.slots {
		if s != nil && s.Taken {
			p.reindex(s)
		}
	}
	w.touch(p)
}

// configured tells whether the pool is a registered one, and no named one.
func (p *Pool) configured() bool { return p.config.Incarnation != 0 && p.naming.Name == "" }

// supported tells whether anything is left of those who set the terms. A claim
// that is void never was one of them, however long it stands.
func (p *Pool) supported() bool {
	for _, s := range p.slots {
		if s != nil && s.Live() && s.Verdict() != Void {
			return true
		}
	}
	for t := p.line.first; t != nil; t = t.next {
		if t.stands() {
			return true
		}
	}
	return false
}

// eldest finds whose terms are in force where nobody's were: those of whoever
// came first.
func (p *Pool) eldest() (n entry.Naming, ok bool) {
	first := ^uint64(0)
	for _, s := range p.slots {
		if s != nil && s.Taken && s.Value.Name != "" && s.owned() && s.Verdict() != Void && s.Fence < first {
			n, first, ok = s.Value.Naming, s.Fence, true
		}
	}
	for t := p.line.first; t != nil && t.Revision < first; t = t.next {
		if t.Value.Name != "" && t.session.Present && !t.void && !t.Value.Spent {
			return t.Value.Naming, true
		}
	}
	return n, ok
}

// judgeTicket finds out whether a ticket agrees with the terms in force. Where
// the view is not exact, it is asked again once it is.
func (w *World) judgeTicket(t *Ticket) {
	if t.Value.Name == "" || t.Value.Spent || !t.session.Present {
		return
	}
	t.void = !t.Pool.knows(t.Value.Incarnation)
	if t.void && !w.Exact() {
		w.unsure[t.Pool] = struct{}{}
	}
}

// reviewTickets judges the tickets of a pool again, by what an exact view knows.
func (w *World) reviewTickets(p *Pool, now Instant) {
	for t := p.line.first; t != nil; t = t.next {
		t.void = false
	}
	w.derive(p, now)
	for t := p.line.first; t != nil; t = t.next {
		w.judgeTicket(t)
	}
	w.touch(p)
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
