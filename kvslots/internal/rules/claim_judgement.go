package rules

// A claim takes its slot for all peers from its entry to its purge. Whether it may be granted is
// the business of its own peer alone: the claim expects the slot's last revision, and a view has
// no gaps, so the claimer has seen every ticket but those that were stored while the claim was
// under way.

// Excluded reports whether the slot's claim is void by what the stream says, for all peers alike:
// its generation, its session or its position is not in force, its ticket is not in the line or
// was served, or another live slot has its request key. Any peer may purge it. A view that was
// not live when it applied the claim does not know that, and counts the slot as taken.
func (s *Slot) Excluded() bool { return s.Taken && s.excluded }

// Good reports whether the claim's own peer may grant it: see claimed. A slot that was written
// again since is good.
func (s *Slot) Good() bool { return s.Taken && !s.void }

// claimed judges a claim that has just been applied. It is good if the view was live, and
//   - it is not excluded, and all live slots fit in the count,
//   - no ticket before it in the line could have had the permit instead, and
//   - no more lower positions were free than tickets waited before it.
func (p *Pool) claimed(s *Slot, live bool) {
	count := p.Count()
	_, out := p.inForce().OutAt(s.Position)
	s.excluded = live && (!s.Live() || p.servedElsewhere(s) || p.repeats(s) || s.Position >= count || out)
	ahead, room := p.ahead(s.place(), count+1), p.free()
	gap := s.Position - p.live.below(s.Position) - p.outBelow(s.Position)
	s.void = !live || s.excluded || room < 0 || ahead > room || gap > ahead
	if s.void {
		p.doubtUntil = max(p.doubtUntil, s.seen+doubtTime)
	}
}

// BecomeLive makes the view live: it misses no entry any more.
func (v *View) BecomeLive() {
	loaded := v.loading
	if v.Live, v.loading = true, false; loaded {
		v.countGraves()
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
