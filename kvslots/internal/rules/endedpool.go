package rules

import "github.com/kvslots/kvslots/kvslots/internal/entry"

// reduce replaces a pool by an endedPool if nothing else is known of it.
func (v *View) reduce(p *Pool) {
	if !v.Live || p.touched || v.pools[p.ID] != p || !p.onlyMarker() {
		return
	}
	ended := &endedPool{id: p.ID, endedKeys: p.endedKeys}
	ended.cfg.init(ended)
	v.moveMarker(&p.cfg, &ended.cfg)
	v.ended[p.ID] = ended
	delete(v.pools, p.ID)
}

func (p *Pool) onlyMarker() bool {
	return !p.cfg.Taken && p.cfg.mark.index != 0 && p.cfg.due.index == 0 &&
		len(p.slots) == 0 && len(p.line.byKey) == 0 && len(p.released) == 0 &&
		p.idleIn == nil && p.share.to == nil && p.member == [kinds]int{}
}

// restore fills a new pool with what the view has kept of it since it ended.
func (v *View) restore(p *Pool) {
	if ended := v.ended[p.ID]; ended != nil {
		p.endedKeys = ended.endedKeys
		v.moveMarker(&ended.cfg, &p.cfg)
		delete(v.ended, p.ID)
	}
}

func (d *deadlines) moveMarker(from, to *record) {
	to.Revision, to.life = from.Revision, from.life
	d.marks.move(&from.mark, &to.mark)
}

func (v *View) makePool(id entry.Hash) *Pool {
	p := v.pools[id]
	if p == nil {
		p = &Pool{ID: id}
		p.cfg.init(p)
		p.idle.of = &p.cfg
		v.pools[id] = p
		v.restore(p)
	}
	return p
}

// OriginOf returns the origin of the client that made a pool or a session, by the key of its
// configuration or of itself; zero if it is not known, and for other keys.
func (v *View) OriginOf(key entry.Key) entry.Hash {
	switch key.Kind {
	case entry.Config:
		if p := v.pools[key.Pool]; p != nil {
			return p.origin
		}
		if ended := v.ended[key.Pool]; ended != nil {
			return ended.origin
		}
	case entry.Session:
		if s := v.byID[key.Session]; s != nil {
			return s.origin
		}
	}
	return entry.Hash{}
}

// countAllEnded counts the keys of the pools that have ended, when all are loaded: their
// configurations' markers may have come before the markers of their slots.
func (v *View) countAllEnded() {
	for _, p := range v.pools {
		if p.endedKeys.keys > 0 {
			v.countEnded(&p.endedKeys, p.origin, p.keys())
		}
		v.reduce(p)
	}
}
