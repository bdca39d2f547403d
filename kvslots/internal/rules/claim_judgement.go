package rules

import (
	"math"
	"slices"
)

// A claim is judged by the state of its pool at the claim's own revision. This state is a
// function of the stream, except for which tickets each peer passes over.
//
// A view that skipped entries may lack part of the state. Then the claim stays open, with
// a snapshot of what the view held, until the view is exact again. If it turns out that no
// entry of the pool was skipped, the snapshot was complete. Otherwise the verdict is lost.

// Verdict is the judgement of a claim.
type Verdict int

const (
	Open Verdict = iota // not known yet, because the view is not exact
	Good                // the lease may be granted
	Void                // the claim must be purged; its caller was told nothing
	Lost                // can never be known: the claim's own peer purges the claim, other peers wait
)

// claim is a claim that this view has not judged good.
type claim struct {
	position int
	verdict  Verdict
	state    *snapshot // the state that judges it; nil when it has been judged
	excluded bool      // see Excluded
	granted  bool      // its peer has shown that it granted the claim; the verdict stays
}

// Excluded reports whether an exact view judged the slot's claim void by session, count,
// generation or ticket. All peers judge these alike, so any peer may purge the claim.
// Which tickets waited before it depends on which of them a peer passes over.
func (s *Slot) Excluded() bool {
	return s.Taken && s.claim != nil && s.claim.verdict == Void && s.claim.excluded
}

// snapshot is the state of a pool at one revision, as far as the view knew it.
type snapshot struct {
	revision uint64
	live     positions // the slots that were lent
	void     positions // those of them that were held by void claims
	open     []*claim  // those of them that were held by open or lost claims
	ahead    int       // the number of tickets that waited before the claim's place
	doubtful int       // how many of these may have been served
	count    int       // of slots; 0 if the claim is excluded whatever its position is
	hidden   uint64    // if not 0: skipped entries from this revision on that no entry names may have changed the state
	ticket   uint64    // if not 0: the ticket that the claim names, which is not in the line
	lost     bool      // a skipped entry has changed the state
}

// snapshot returns the pool's state as the view has it now. Unless keep is set, it is
// valid until the next change of the view.
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

// judge judges the claim of a position. The state includes that claim. The claim is good if
//   - all live slots fit in the count,
//   - no ticket before it in the line could have had the permit instead,
//   - no more lower positions were free than tickets waited before it, and
//   - leases, not void claims, held the other lower positions.
func (s *snapshot) judge(position int) Verdict {
	for _, c := range s.open {
		switch {
		case c.granted:
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
	}
	return Good
}

// claimed judges a claim that has just been applied.
func (p *Pool) claimed(s *Slot, exact bool) {
	state := p.snapshot(s.Revision, !exact)
	state.ahead = p.ahead(s.place(), state.count+1)
	state.doubtful = p.doubtfulAhead(s.place())
	excluded := !s.Live() || p.servedElsewhere(s)
	if excluded {
		state.count = 0
	}
	excluded = excluded || s.Position >= state.count
	verdict := Open
	if exact {
		if verdict = state.judge(s.Position); verdict == Good {
			return // the usual case
		}
	}
	c := &claim{position: s.Position, verdict: verdict, excluded: excluded}
	if !exact {
		kept := state
		if s.Value.Ticket != 0 && p.Ticket(s.Value.Ticket) == nil {
			kept.ticket = s.Value.Ticket
		}
		c.state = &kept
		p.open = append(p.open, c)
	}
	s.claim = c
	if !slices.Contains(p.doubted, s) {
		p.doubted = append(p.doubted, s)
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

// doubtfulAhead counts the tickets that wait before a place and may have been
// served.
func (p *Pool) doubtfulAhead(place uint64) int {
	return p.line.count(place, math.MaxInt, func(t *Ticket) bool { return t.Doubtful() && t.waits() })
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
	return s.Fence
}

// judgeOpen judges the open claims when the view is exact. unnamed is Gaps.Unnamed: a
// skipped entry that no other entry named may have been one of this pool. If it was the
// ticket that a claim names, the view cannot know whether the ticket was in the line: its
// marker has expired since, or was lost.
func (p *Pool) judgeOpen(unnamed func(low, high uint64) bool) {
	for _, c := range p.open { // in their order, since a verdict may depend on earlier ones
		s := c.state
		s.lost = s.lost || s.hidden != 0 && unnamed(s.hidden, s.revision) || s.ticket != 0 && unnamed(s.ticket, s.ticket)
		c.verdict, c.state = s.judge(c.position), nil
	}
	p.open = nil
	for _, s := range p.doubted {
		if s.claim != nil && s.claim.verdict == Good {
			s.claim = nil
		}
	}
}

// skipped records that the view skipped entries of a key: it had the key at revision
// known, and the next entry overwrote revision previous. Snapshots of revisions in
// between lack the skipped entries.
func (p *Pool) skipped(known, previous uint64) {
	if previous <= known {
		return
	}
	for _, c := range p.open {
		switch s := c.state; {
		case s.revision < known:
		case s.revision >= previous:
			s.lost = true
		case s.hidden == 0 || known < s.hidden:
			s.hidden = known + 1
		}
	}
}
