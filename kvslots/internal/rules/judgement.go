package rules

import (
	"math"
	"slices"
)

// A claim is judged by the world as it stood when the stream took it: at its
// own revision. So its verdict is a function of the stream alone, and all peers
// come to the same one, whenever they get to see what.
//
// A view that skips entries may not have known all there was to know at that
// instant. Then the judgement is kept open, with what was known, until the view
// is exact again. If nothing turns out to have been skipped in that pool, it
// was all there was to know. If something has, the verdict cannot be known: the
// claim's own peer purges it then, the others wait and see.

// Verdict is what the rules say of a claim.
type Verdict int

// The verdicts.
const (
	Open Verdict = iota // not known yet, for the view is not exact
	Good                // the lease may be granted
	Void                // it must be purged; its caller was told nothing
	Lost                // it cannot be known: its own peer purges it, the others wait and see
)

// claim is a claim that is not known to be good.
type claim struct {
	position int
	verdict  Verdict
	world    *snapshot // what it is to be judged by; nil when it has been judged
	excluded bool      // the generation, or the ticket that it names, is not its own: any peer may purge it
}

// Excluded reports whether an exact view judged the slot's claim void by count,
// generation or ticket. Unlike "a ticket stood before it", which depends on what
// was passed over, that is a function of the stream: any peer may purge it.
func (s *Slot) Excluded() bool {
	return s.Taken && s.claim != nil && s.claim.verdict == Void && s.claim.excluded
}

// snapshot is what is known of a pool at one instant.
type snapshot struct {
	revision uint64    // the instant
	live     positions // the slots that were lent
	void     positions // those of them that were held by void claims
	open     []*claim  // those of them that were held by claims not judged yet, or lost
	ahead    int       // tickets that waited before that place
	doubtful int       // so many of them may have been served
	count    int       // of slots; 0 when the pool was not registered, or was another
	hidden   uint64    // if not 0: something from this revision on may have happened that no entry names
	lost     bool      // it is not known what was
}

// snapshot takes down what is known now. It shares the positions with the pool
// unless they are to be kept.
func (p *Pool) snapshot(revision uint64, keep bool) snapshot {
	s := snapshot{revision: revision, live: p.live, count: p.Count()}
	if keep {
		s.live = append(positions(nil), p.live...)
	}
	for _, o := range p.doubted {
		if c := o.claim; c != nil && o.Live() {
			switch c.verdict {
			case Void:
				s.void.put(c.position)
			case Open, Lost:
				s.open = append(s.open, c)
			}
		}
	}
	return s
}

// judge judges a claim on a position by the world that it is part of.
//
// Good means: all live slots fit in the count; of the tickets that waited before it
// in the line, none could have had the permit instead; and below the position no
// more were free than there were such tickets, while the others were held by
// leases.
func (s *snapshot) judge(position int) Verdict {
	for _, c := range s.open {
		switch {
		case c.verdict == Void:
			s.void.put(c.position)
		case c.verdict == Lost && c.position < position:
			return Lost
		}
	}
	room, gap := s.count-s.live.len(), position-s.live.below(position)
	switch {
	case s.lost:
		return Lost
	case position >= s.count, room < 0, s.ahead-s.doubtful > room:
		return Void
	case gap > s.ahead, s.void.below(position) > 0:
		return Void
	case s.doubtful > 0 && (s.ahead > room || gap > s.ahead-s.doubtful):
		return Lost
	case s.ahead > room:
		return Void
	}
	return Good
}

// claimed judges a claim that has just been applied.
func (p *Pool) claimed(s *Slot, exact bool) {
	world := p.snapshot(s.Revision, !exact)
	world.ahead = p.ahead(s.place(), world.count+1)
	world.doubtful = p.doubtfulAhead(s.place(), s.seen)
	excluded := !s.Live() || p.servedElsewhere(s)
	if excluded {
		world.count = 0
	}
	excluded = excluded || s.Position >= world.count
	verdict := Open
	if exact {
		if verdict = world.judge(s.Position); verdict == Good {
			return // by far the most
		}
	}
	c := &claim{position: s.Position, verdict: verdict, excluded: excluded}
	if !exact {
		kept := world
		c.world = &kept
		p.open = append(p.open, c)
	}
	s.claim = c
	if !slices.Contains(p.doubted, s) {
		p.doubted = append(p.doubted, s)
	}
}

// doubtfulAhead counts the tickets that wait before that place and may have been
// served.
func (p *Pool) doubtfulAhead(place uint64, now Instant) int {
	return p.line.count(place, math.MaxInt, func(t *Ticket) bool { return t.Doubtful(now) && t.waits() })
}

// servedElsewhere reports whether a claim names a ticket that has left the line:
// it was taken out, or another claim has served it.
func (p *Pool) servedElsewhere(s *Slot) bool {
	if s.Value.Ticket == 0 {
		return false
	}
	t := p.Ticket(s.Value.Ticket)
	return t == nil || t.Value.Spent || t.claim != s || t.Value.Generation != s.Value.Generation
}

// place is where the claim stands in the line.
func (s *Slot) place() uint64 {
	if s.Value.Ticket != 0 {
		return s.Value.Ticket
	}
	return s.Fence
}

// close judges what was left open, for the view is exact now. What a barrier
// alone accounted for may have happened to a key of which that is possible.
func (p *Pool) close(unnamed func(low, high uint64) bool) {
	for _, c := range p.open { // in their order, for each may depend on those before it
		s := c.world
		s.lost = s.lost || (s.hidden != 0 && unnamed(s.hidden, s.revision))
		c.verdict, c.world = s.judge(c.position), nil
	}
	p.open = nil
	for _, s := range p.doubted {
		if s.claim != nil && s.claim.verdict == Good {
			s.claim = nil
		}
	}
}

// skipped notes that entries of a key were skipped: the view held it at one
// revision, and learns from the next entry that it was at another before. What
// was taken down in between did not know of that.
func (p *Pool) skipped(held, previous uint64) {
	if previous <= held {
		return
	}
	for _, c := range p.open {
		switch s := c.world; {
		case s.revision < held:
		case s.revision >= previous:
			s.lost = true
		case s.hidden == 0 || held < s.hidden:
			s.hidden = held + 1
		}
	}
}
