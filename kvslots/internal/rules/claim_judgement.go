package rules

// A claim takes its slot for all peers from its entry to its purge. Whether it may be granted is
// the business of its own peer alone: the claim expects the slot's last revision, and a view has
// no gaps, so the claimer has seen every ticket but those that were stored while the claim was
// under way.

// claimed judges a claim that has just been applied. It is good if the view was live, and
//   - it is not excluded, and all live slots fit in the count,
//   - no ticket before it in the line could have had the permit instead, and
//   - no more lower positions were free than tickets waited before it.
func (p *Pool) claimed(s *Slot, live bool) {
	count := p.Count()
	_, out := p.inForce().OutAt(s.Position)
	s.excluded = live && (!s.Live() || p.servedElsewhere(s) || p.repeats(s) || s.Position >= count || out)
	ahead, room := p.ahead(s.place(), count+1, nil), p.free()
	gap := s.Position - p.live.below(s.Position) - p.outBelow(s.Position)
	s.void = !live || s.excluded || room < 0 || ahead > room || gap > ahead
	if s.void {
		p.doubtUntil = max(p.doubtUntil, s.seen+doubtTime)
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

func (s *Slot) place() uint64 {
	if s.Value.Ticket != 0 {
		return s.Value.Ticket
	}
	return s.Revision
}
