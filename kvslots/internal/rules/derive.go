package rules

// PassOver passes over each peer that has not claimed for a ticket within StallTime of
// the ticket's turn, and over each enqueued ticket for which no peer has. It touches every
// pool with a ticket for which there is a permit.
func (v *View) PassOver(now Instant) {
	for _, p := range v.sets[hasAble] {
		v.touch(p)
		for _, t := range p.line.able {
			if t.turnSince == 0 || t.Claimed() || t.stalled() || now.Sub(t.turnSince) < StallTime {
				continue
			}
			if t.Value.Enqueued() {
				t.passed = true
				continue
			}
			t.server.stalled = true
			for _, other := range t.server.Tickets {
				v.touch(other.Pool)
			}
		}
	}
	v.derive(now)
}

// derive recomputes what is derived from the entries, for the touched pools.
func (v *View) derive(now Instant) {
	for i := 0; i < len(v.touched); i++ {
		p := v.touched[i]
		v.scheduleOrphans(p, now)
		p.setIdleQueue(v.idleQueue(p), now)
		v.deriveTotals(p)
		p.refreshAble(now)
		v.sets.put(hasAble, p, len(p.line.able) > 0)
		v.sets.put(hasLine, p, len(p.line.tickets) > 0)
		v.sets.put(isClosing, p, p.Closing())
	}
}

// Touched returns the pools that may have changed since the last call. The slice is
// valid until the next call.
func (v *View) Touched() []*Pool {
	for _, p := range v.handed {
		v.reduce(p)
	}
	t := v.touched
	for _, p := range t {
		p.touched = false
	}
	v.touched, v.handed = v.handed[:0], t
	return t
}

// BecomeLive makes the view live: it misses no entry any more.
func (v *View) BecomeLive() {
	loaded := v.loading
	if v.Live, v.loading = true, false; loaded {
		v.countAllEnded()
	}
}
