package sim

import (
	"bytes"
	"maps"
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// share is the number of names that a session or an origin uses.
type share struct {
	names   int
	reached int // as an Instant: since when the cap has been reached; 0: it is not
}

// observeShares checks the caps on the names that one session and one origin use.
func (k *capChecker) observeShares() {
	caps := &k.s.plan.Caps
	if caps.LocksPerSession+caps.LocksPerOrigin == 0 {
		return
	}
	t := k.s.server.truth
	now := t.namesByHolder()
	for id := range k.shares {
		if now[id] == 0 {
			delete(k.shares, id)
		}
	}
	ids := slices.SortedFunc(maps.Keys(now), func(x, y entry.Hash) int { return bytes.Compare(x[:], y[:]) })
	for _, id := range ids {
		what, most := "names of an origin", caps.LocksPerOrigin
		if t.sessions[id] != nil {
			what, most = "names of a session", caps.LocksPerSession
		}
		s := k.shares[id]
		k.one(what, s.names, now[id], most, &s.reached)
		s.names = now[id]
		k.shares[id] = s
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

// originOf returns the origin of a client session, or that of a holder without a session.
func (t *truth) originOf(session, origin entry.Hash) entry.Hash {
	if s := t.sessions[session]; s != nil && s.Session.Kind == entry.SessionClient {
		return s.Session.Origin
	}
	return origin
}
