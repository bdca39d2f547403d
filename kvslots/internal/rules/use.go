package rules

// A named pool is an ordinary pool whose configuration is written by its first
// user. It is in use while a slot of it is live or a ticket stands. One that has
// not been used for a while is closed: see package peer.

// uses are the named pools that are in use, and those that are not.
type uses struct {
	Named   int     // those that are in use
	idles   dues    // those that are not used, since when
	closing poolSet // those that are being closed
}

// InUseOrWaited reports whether a slot is live or a ticket stands.
func (p *Pool) InUseOrWaited() bool { return p.live.len() > 0 || p.WaitingUpTo(1) > 0 }

// settleUse notes whether a named pool is in use, and since when it has not been.
func (w *World) settleUse(p *Pool, now Instant) {
	named := p.Terms().Named()
	used := named && p.InUseOrWaited()
	if used != p.used {
		if p.used = used; used {
			w.Named++
		} else {
			w.Named--
		}
	}
	w.closing.put(p, named && p.Config.Count == 0)
	switch {
	case used || !named || p.Config.Count == 0:
		w.idles.drop(&p.idle)
	case p.idle.index == 0:
		p.idleSince = now
		w.idles.set(&p.idle, now)
	}
}

// Closings are the named pools that are being closed. The slice is good until the
// next change of the world.
func (u *uses) Closings() []*Pool { return u.closing.list }

// IdleSince is since when a named pool has not been used; ok is false while it
// is, and for another pool.
func (p *Pool) IdleSince() (at Instant, ok bool) { return p.idleSince, p.idle.index != 0 }

// IdleNames is the number of named pools that are registered and not used.
func (u *uses) IdleNames() int { return len(u.idles) }

// Idlest is the idle pool that comes first, with the time since when it counts as
// not used: that is later than it is for one that was put off. It is nil if there is
// none.
func (u *uses) Idlest() (p *Pool, at Instant) {
	if len(u.idles) == 0 {
		return nil, 0
	}
	return u.idles[0].of.(*Pool), u.idles[0].at
}

// Defer puts off an idle pool: it counts as used until at.
func (u *uses) Defer(p *Pool, at Instant) {
	if p.idle.index != 0 {
		u.idles.set(&p.idle, at)
	}
}
