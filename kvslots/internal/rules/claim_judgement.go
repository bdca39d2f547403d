package rules

import (
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// A claim is judged by the state of its pool at the claim's own revision. This state is a
// function of the stream, except for which tickets each peer passes over.

// Verdict is the judgement of a claim.
type Verdict int

const (
	Good    Verdict = iota // the lease may be granted
	Void                   // the claim must be purged; its caller was told nothing
	Unknown                // the view did not have all entries of the pool when it applied the claim: the claim's own peer purges it, other peers wait
)

// claim is a claim that this view has not judged good.
type claim struct {
	verdict  Verdict
	open     bool // the verdict is right if the catch-up that is under way has skipped no entry of the pool
	excluded bool // see Excluded
	granted  bool // its peer has shown that it granted the claim; the verdict stays

	// until ends the doubt of a claim that a live view could not judge because of claims below
	// it: when these are certain, at the latest. Otherwise the doubt would go over to the next
	// claims, for as long as a pool is busy. 0 while the view is not live.
	until Instant
}

// Excluded reports whether the slot's claim is void by session, count, generation, ticket or request
// key, or because the position is out of service. All peers judge these alike, so any peer may purge the claim. Which tickets waited before
// it depends on which of them a peer passes over.
func (s *Slot) Excluded() bool {
	return s.Taken && s.claim != nil && s.claim.excluded && !s.claim.open
}

// claimed judges a claim that has just been applied. It is good if
//   - it is not excluded, and all live slots fit in the count,
//   - no ticket before it in the line could have had the permit instead,
//   - no more lower positions were free than tickets waited before it, and
//   - leases, not void claims, held the other lower positions.
func (p *Pool) claimed(s *Slot, live bool, sure Instant) {
	count := p.Count()
	ahead := p.ahead(s.place(), count+1)
	room, gap := p.free(), s.Position-p.live.below(s.Position)-p.outBelow(s.Position)
	_, out := p.inForce().OutAt(s.Position)
	excluded, verdict := !s.Live() || p.servedElsewhere(s) || p.repeats(s) || s.Position >= count || out, Void
	if !excluded && room >= 0 && ahead <= room && gap <= ahead {
		verdict = p.worstBelow(s.Position)
	}
	if verdict == Good && live {
		return // the usual case
	}
	s.claim = &claim{verdict: verdict, excluded: excluded, open: !live}
	if live && verdict == Unknown {
		s.claim.until = sure
	}
	if !slices.Contains(p.doubted, s) {
		p.doubted = append(p.doubted, s)
	}
}

// worstBelow returns Void or Unknown if a claim below a position is, and was not granted.
func (p *Pool) worstBelow(position int) (worst Verdict) {
	for _, o := range p.doubted {
		if o.Position >= position || o.claim == nil || o.claim.granted || !o.Live() {
			continue
		}
		if o.claim.verdict == Void {
			return Void
		}
		worst = Unknown
	}
	return worst
}

// noteSkipped records that a catch-up has skipped entries of a pool: an entry overwrote
// another one than the view has. So the view does not know the pool's state before.
func (v *View) noteSkipped(e *entry.Entry) {
	if v.Live || v.loading {
		return
	}
	switch known, taken := v.Latest(e.Key); e.Key.Kind {
	case entry.Config, entry.Slot, entry.Ticket:
		if e.Previous > known {
			v.skipped = append(v.skipped, v.pool(e.Key.Pool))
		}
	case entry.Session:
		s := v.byID[e.Key.Session]
		if e.Previous <= known || taken || s == nil { // a session that the view knows has been alive, since an id is used once
			return
		}
		for _, slot := range s.Slots {
			v.skipped = append(v.skipped, slot.Pool)
		}
		for _, t := range s.Tickets {
			v.skipped = append(v.skipped, t.Pool)
		}
	}
}

// BecomeLive makes the view live: it misses no entry any more. It gives the verdicts on the
// claims that it has applied before. After a load they are unknown, since the entries that
// were overwritten before show nothing.
func (v *View) BecomeLive(now Instant) {
	for _, p := range v.skipped {
		p.skipped = true
	}
	for _, p := range v.sets[inDoubt] {
		for _, s := range p.doubted {
			c := s.claim
			if c == nil || !c.open {
				continue
			}
			if c.open = false; v.loading || p.skipped {
				c.verdict, c.excluded = Unknown, false
			} else if c.verdict == Good {
				s.claim = nil
			}
		}
		p.unsettled = append(p.unsettled, p.doubted...)
		v.touch(p)
	}
	for _, p := range v.skipped {
		p.skipped = false
	}
	loaded := v.loading
	v.Live, v.loading, v.skipped, v.sure = true, false, nil, now+sureTime
	v.settle(now)
	if loaded {
		v.countGraves()
	}
}

// ticketLeft marks the claim that names a ticket as granted, when the ticket's key has
// another entry: the claim's peer purges the ticket only after the grant, and purges a void
// claim before the ticket. Unseen claims stay in doubt: several peers may claim for an
// enqueued ticket.
func (p *Pool) ticketLeft(place uint64) {
	for _, s := range p.doubted {
		if place != 0 && s.Value.Ticket == place && !s.Value.Unseen && s.claim != nil && !s.Excluded() {
			s.claim.granted = true
		}
	}
}

// servedElsewhere reports whether a claim names a ticket that is not in the line, is of
// another generation, or was served by another claim.
func (p *Pool) servedElsewhere(s *Slot) bool {
	if s.Value.Ticket == 0 {
		return false
	}
	t := p.Ticket(s.Value.Ticket)
	return t == nil || t.Value.Spent || t.claim != s || t.Value.Generation != s.Value.Generation
}

// place returns the claim's place in the line.
func (s *Slot) place() uint64 {
	if s.Value.Ticket != 0 {
		return s.Value.Ticket
	}
	return s.Revision
}
