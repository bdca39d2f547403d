package rules

// A named pool is an ordinary pool whose configuration its first borrow writes. It
// is in use while a slot is live or a ticket stands, and idle otherwise. Peers close
// a name that has been idle for a while: see package peer.

// uses holds which named pools are in use, idle or being closed.
type uses struct {
	Named   int           // the number of those in use
	Unnamed int           // the number of registered pools without a name
	idles   deadlineQueue // the idle ones: see Idlest
	closing poolSet       // those that are being closed
}

// InUseOrWaited reports whether a slot is live or a ticket stands.
func (p *Pool) InUseOrWaited() bool { return p.live.len() > 0 || p.WaitingUpTo(1) > 0 }

// settleUse updates whether a named pool is in use, idle or being closed.
func (v *View) settleUse(p *Pool, now Instant) {
	named := p.Terms().Named()
	used := named && p.InUseOrWaited()
	if used != p.used {
		if p.used = used; used {
			v.Named++
		} else {
			v.Named--
		}
	}
	if counted := p.Registered() && !named; counted != p.counted {
		if p.counted = counted; counted {
			v.Unnamed++
		} else {
			v.Unnamed--
		}
	}
	v.closing.put(p, named && p.Config.Count == 0)
	switch {
	case used || !named || p.Config.Count == 0:
		v.idles.drop(&p.idle)
	case p.idle.index == 0:
		p.idleSince = now
		v.idles.set(&p.idle, now)
	}
}

// Closings returns the named pools that are being closed. The slice is valid until
// the next change of the view.
func (u *uses) Closings() []*Pool { return u.closing.list }

// IdleSince returns since when a named pool has been idle; ok is false if it is not,
// and for a registered pool.
func (p *Pool) IdleSince() (at Instant, ok bool) { return p.idleSince, p.idle.index != 0 }

// IdleNames returns the number of idle named pools.
func (u *uses) IdleNames() int { return len(u.idles) }

// Idlest returns the idle pool that is to be closed first, or nil. at is since when
// it has been idle, or the time given to Defer.
func (u *uses) Idlest() (p *Pool, at Instant) {
	if len(u.idles) == 0 {
		return nil, 0
	}
	return u.idles[0].of.(*Pool), u.idles[0].at
}

// Defer makes an idle pool count as idle only since at.
func (u *uses) Defer(p *Pool, at Instant) {
	if p.idle.index != 0 {
		u.idles.set(&p.idle, at)
	}
}
