package rules

import "github.com/kvslots/kvslots/kvslots/internal/entry"

// endedPool is what the view keeps of a pool of which the bucket has nothing but the marker of
// its configuration. Clients may leave many of them, so it is a fraction of a Pool.
type endedPool struct {
	id  entry.Hash
	cfg record
	grave
}

// reduce replaces a pool by an endedPool if nothing else is known of it.
func (v *View) reduce(p *Pool) {
	if !v.Live || p.touched || v.pools[p.ID] != p || !p.onlyMarker() {
		return
	}
	ended := &endedPool{id: p.ID, grave: p.grave}
	ended.cfg.init(ended)
	v.moveMarker(&p.cfg, &ended.cfg)
	v.ended[p.ID] = ended
	delete(v.pools, p.ID)
}

// onlyMarker reports whether the marker of the configuration is all that is known of the pool.
func (p *Pool) onlyMarker() bool {
	return !p.cfg.Taken && p.cfg.mark.index != 0 && p.cfg.due.index == 0 &&
		len(p.slots) == 0 && len(p.line.byKey) == 0 && len(p.released) == 0 &&
		p.idleIn == nil && p.share.to == nil && p.member == [kinds]int{}
}

// restore fills a new pool with what the view has kept of it since it ended.
func (v *View) restore(p *Pool) {
	if ended := v.ended[p.ID]; ended != nil {
		p.grave = ended.grave
		v.moveMarker(&ended.cfg, &p.cfg)
		delete(v.ended, p.ID)
	}
}

// moveMarker moves what is known of a free key from one record to another.
func (d *deadlines) moveMarker(from, to *record) {
	to.Revision, to.life = from.Revision, from.life
	d.marks.move(&from.mark, &to.mark)
}
