package sim

// window records the states that a pool had in the stream between a call's start and
// its answer. The answer must be right for one of them.
type window struct {
	seen          bool
	minFree       int    // minimum of the slots that no lease, ticket or other call claimed
	maxRivals     int    // maximum of the other calls that wanted a slot and had neither slot nor ticket
	counts        minMax // the pool's size
	taken         minMax // slots with an entry
	waiting       minMax // tickets
	wasAbsent     bool   // the pool was not registered at some time
	wasPresent    bool   // the pool was registered at some time
	otherTerms    bool   // the pool was in use under terms other than the call's
	configChanged bool   // the pool's configuration changed
	revision      uint64
}

type minMax struct{ min, max int }

func (s *minMax) add(n int, first bool) {
	if first {
		s.min, s.max = n, n
	}
	s.min, s.max = min(s.min, n), max(s.max, n)
}

func (s minMax) has(n int) bool { return s.min <= n && n <= s.max }

func (w *window) observe(p *poolTruth, c *call, pending int) {
	first := !w.seen
	w.seen = true
	if p.pends(c) {
		pending--
	}
	w.maxRivals = max(w.maxRivals, pending)
	free := p.size() - len(p.slots) - len(p.tickets) - pending
	if first || free < w.minFree {
		w.minFree = free
	}
	w.counts.add(p.size(), first)
	w.taken.add(len(p.slots), first)
	w.waiting.add(len(p.tickets), first)
	if p.registered() {
		w.wasPresent = true
	} else {
		w.wasAbsent = true
	}
	if !first && w.revision != p.config.Revision {
		w.configChanged = true
	}
	w.revision = p.config.Revision
	if t := &c.target; t.named && p.registered() && p.config.Config.Terms != t.terms && (p.count() > 0 && p.inForce()+len(p.tickets) > 0 || w.configChanged) {
		w.otherTerms = true
	}
}
