package rules

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
	Void                // it must be purged; nobody was told of it
	Lost                // it cannot be known: its own peer purges it, the others wait and see
)

// claim is a claim that is not known to be good.
type claim struct {
	position int
	verdict  Verdict
	world    *snapshot // what it is to be judged by; nil when it has been judged
}

// snapshot is what is known of a pool at one instant.
type snapshot struct {
	revision uint64    // the instant
	live     positions // the slots that were lent
	void     positions // those of them that were held by void claims
	open     []*claim  // those of them that were held by claims not judged yet, or lost
	ahead    int       // tickets that waited before that place
	doubtful bool      // of whom some may have been served
	count    int       // of slots; 0 when the pool was not registered, or was another
	hidden   uint64    // if not 0: something from this revision on may have happened that nobody names
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
// Good means: the position was the lowest free one, with all lower ones held by
// leases; all live slots fit in the count; and of those who waited before it in
// the line, nobody could have had the permit instead.
func (s *snapshot) judge(position int) Verdict {
	for _, c := range s.open {
		switch {
		case c.verdict == Void:
			s.void.put(c.position)
		case c.verdict == Lost && c.position < position:
			return Lost
		}
	}
	room := s.count - s.live.len()
	switch {
	case s.lost:
		return Lost
	case s.doubtful && (s.count == 0 || s.ahead > room):
		return Lost
	case position >= s.count, room < 0, s.ahead > room:
		return Void
	case s.live.below(position) < position, s.void.below(position) > 0:
		return Void
	}
	return Good
}

// inUse counts the leases; known is false where there was a claim that is not
// known to be good. One that is void will be withdrawn; but whether a peer that
// stood still had been passed over by then, each peer says by its own clock.
func (s *snapshot) inUse() (n int, known bool) {
	known = !s.lost && s.void.len() == 0
	for _, c := range s.open {
		known = known && c.verdict == Good
	}
	return s.live.len(), known
}

// claimed judges a claim that has just been applied.
func (p *Pool) claimed(s *Slot, exact bool) {
	world := p.snapshot(s.Revision, !exact)
	if s.Value.Name != "" {
		world.count = s.Value.Limit
	}
	world.ahead = p.ahead(s.place(), world.count+1)
	world.doubtful = p.doubtfulAhead(s.place(), s.seen)
	if !s.Live() || p.servedElsewhere(s) || p.disagrees(s) {
		world.count = 0
	}
	verdict := Open
	if exact {
		if verdict = world.judge(s.Position); verdict == Good {
			return // by far the most
		}
	}
	c := &claim{position: s.Position, verdict: verdict}
	if !exact {
		c.world = &world
		p.open = append(p.open, &world)
		p.unjudged = append(p.unjudged, c)
	}
	s.claim = c
	p.doubted = append(p.doubted, s)
}

// doubtfulAhead tells whether a ticket before that place may have been served.
func (p *Pool) doubtfulAhead(place uint64, now Instant) bool {
	for t := p.line.first; t != nil && t.Revision < place; t = t.next {
		if t.Doubtful(now) {
			return true
		}
	}
	return false
}

// servedElsewhere tells whether a claim is for a ticket of a named pool that
// has left the line: it was taken out, or another claim has served it. Whoever
// waited may not be there any more, and any peer may have claimed for it.
func (p *Pool) servedElsewhere(s *Slot) bool {
	if s.Value.Name == "" || s.Value.Ticket == 0 {
		return false
	}
	t := p.Ticket(s.Value.Ticket)
	return t == nil || t.Value.Spent || t.claim != s
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
//
// In a named pool nothing is void that was left open: what the claim was good for
// may be gone without a trace, and to take it for void would be to take it for
// somebody's who has no terms in force, and to purge it.
func (p *Pool) close(unnamed func(low, high uint64) bool) {
	for _, s := range p.open {
		s.lost = s.lost || (s.hidden != 0 && unnamed(s.hidden, s.revision))
	}
	for _, c := range p.unjudged { // in their order, for each may depend on those before it
		c.verdict, c.world = c.world.judge(c.position), nil
		if c.verdict == Void && !p.configured() {
			c.verdict = Lost
		}
	}
	p.open, p.unjudged = nil, nil
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
	for _, s := range p.open {
		switch {
		case s.revision < held:
		case s.revision >= previous:
			s.lost = true
		case s.hidden == 0 || held < s.hidden:
			s.hidden = held + 1
		}
	}
}

// Reading is the state of a pool at one instant. It may have to be kept open
// until the view is exact.
type Reading struct {
	world   snapshot
	Waiting int
}

// Read takes the state of a pool as it is now.
func (p *Pool) Read(revision uint64, exact bool) *Reading {
	r := &Reading{world: p.snapshot(revision, true), Waiting: p.Waiting()}
	if !exact {
		p.open = append(p.open, &r.world)
	}
	return r
}

// InUse is the number of leases at that instant; ok is false if it cannot be
// known. It means something once the view has become exact.
func (r *Reading) InUse() (n int, ok bool) { return r.world.inUse() }
