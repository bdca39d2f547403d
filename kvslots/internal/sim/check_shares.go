package sim

import (
	"bytes"
	"maps"
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

type share struct {
	n       int
	reached int // as an Instant: since when the cap has been reached; 0: it is not
}

func (k *capChecker) observeShares() {
	caps := &k.s.plan.Caps
	if caps.LocksPerSession+caps.LocksPerOrigin == 0 {
		return
	}
	t := k.s.server.truth
	k.each(k.shares, t.namesByHolder(), func(id entry.Hash) (what string, most int) {
		if t.sessions[id] != nil {
			return "names of a session", caps.LocksPerSession
		}
		return "names of an origin", caps.LocksPerOrigin
	})
}

func (k *capChecker) observeOrigins(now map[entry.Hash]int) {
	k.each(k.origins, now, func(origin entry.Hash) (what string, most int) {
		if origin.IsZero() { // of clients that do not say where they are
			return "", 0
		}
		return "sessions of an origin", k.s.plan.Caps.SessionsPerOrigin
	})
}

func (k *capChecker) each(shares map[entry.Hash]share, now map[entry.Hash]int, capOf func(entry.Hash) (what string, most int)) {
	for id := range shares {
		if now[id] == 0 {
			delete(shares, id)
		}
	}
	ids := slices.SortedFunc(maps.Keys(now), func(x, y entry.Hash) int { return bytes.Compare(x[:], y[:]) })
	for _, id := range ids {
		what, most := capOf(id)
		s := shares[id]
		k.one(what, s.n, now[id], most, &s.reached)
		s.n = now[id]
		shares[id] = s
	}
}

// namesByHolder returns the number of names of which each client session that is alive has a
// slot or a ticket, and each origin.
func (t *truth) namesByHolder() map[entry.Hash]int {
	if c := t.s.plan.Caps; c.LocksPerSession+c.LocksPerOrigin == 0 {
		return nil
	}
	names := map[entry.Hash]int{}
	for _, p := range t.pools {
		holders := map[entry.Hash]bool{}
		add := func(session, origin entry.Hash) {
			if s := t.sessions[session]; s != nil && s.Session.Kind == entry.SessionClient {
				holders[session] = true
			}
			if origin = t.originOf(session, origin); !origin.IsZero() {
				holders[origin] = true
			}
		}
		if cfg := p.config.Config; p.registered() && cfg.Named() && !cfg.OutOrigin.IsZero() {
			holders[cfg.OutOrigin] = true
		}
		for _, e := range p.slots {
			add(e.Slot.Session, e.Slot.Origin)
		}
		for _, w := range p.tickets {
			add(w.holder(), w.Ticket.Origin)
		}
		for holder := range holders {
			names[holder]++
		}
	}
	return names
}

func (t *truth) originOf(session, origin entry.Hash) entry.Hash {
	if s := t.sessions[session]; s != nil && s.Session.Kind == entry.SessionClient {
		return s.Session.Origin
	}
	return origin
}
