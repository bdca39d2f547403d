package sim

// window is what the stream had of a call's pool between the call's start and
// its answer. An answer must be true at some time in between.
type window struct {
	seen     bool
	free     int  // the fewest slots that were neither taken nor waited for
	rivals   int  // the most other calls that wanted a slot and had neither slot nor ticket
	counts   span // slots in force
	taken    span // slots with an entry
	waiting  span // tickets
	absent   bool // the pool was not registered
	present  bool // it was
	others   bool // it was in use under other terms than the call's
	changed  bool // its configuration was
	revision uint64
}

// span is the least and the most.
type span struct{ least, most int }

func (s *span) add(n int, first bool) {
	if first {
		s.least, s.most = n, n
	}
	s.least, s.most = min(s.least, n), max(s.most, n)
}

func (s span) has(n int) bool { return s.least <= n && n <= s.most }

// observe takes down how the pool is now.
func (w *window) observe(p *poolTruth, c *call, pending int) {
	first := !w.seen
	w.seen = true
	if p.pends(c) {
		pending--
	}
	w.rivals = max(w.rivals, pending)
	free := p.count() - len(p.slots) - len(p.tickets) - pending
	if first || free < w.free {
		w.free = free
	}
	w.counts.add(p.count(), first)
	w.taken.add(len(p.slots), first)
	w.waiting.add(len(p.tickets), first)
	if p.registered() {
		w.present = true
	} else {
		w.absent = true
	}
	if !first && w.revision != p.config.Revision {
		w.changed = true
	}
	w.revision = p.config.Revision
	if t := &c.target; t.named && p.registered() && p.config.Config.Terms != t.terms && (p.config.Config.Count > 0 && p.inForce()+len(p.tickets) > 0 || w.changed) {
		w.others = true
	}
}
