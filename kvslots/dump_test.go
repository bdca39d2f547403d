package kvslots

import (
	"fmt"
	"strings"

	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// dump shows what a peer is at, for a test that hangs.
func (b *bucket) dump() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var s strings.Builder
	fmt.Fprintf(&s, "revision %d loaded %v exact %v self %v asked %d open %d needed %v releases %d orphans %d watch %+v\n",
		b.world.Revision, b.loaded, b.world.Exact(), b.self.revision, len(b.asked), len(b.open), b.needed, b.releases, len(b.orphans), *b.watch)
	for _, lp := range b.locals {
		if len(lp.all())+len(lp.flight.Claims)+len(lp.flight.Purges) == 0 && (b.world.Pool(lp.id) == nil || b.world.Pool(lp.id).Waiting()+b.world.Pool(lp.id).InUse() == 0) {
			continue
		}
		fmt.Fprintf(&s, "  pool %s queue %d joining %d waiting %d claims %d refusing %d flight %+v held %d paused %v named %d names %d\n", lp.id,
			len(lp.queue), len(lp.joining), len(lp.waiting), len(lp.claims), len(lp.refusing), lp.flight, lp.held, lp.paused-b.now(), lp.named, len(lp.names))
		p := b.world.Pool(lp.id)
		if p == nil {
			continue
		}
		fmt.Fprintf(&s, "    %s fresh %d promoting %d keyed %v; terms %d; ", p.Naming().Name, len(lp.fresh), len(lp.promoting), lp.keyed, p.Incarnation())
		fmt.Fprintf(&s, "    count %d in use %d waiting %d able %d\n", p.Count(), p.InUse(), p.Waiting(), len(p.Able()))
		p.Slots(func(x *rules.Slot) bool {
			fmt.Fprintf(&s, "    slot %d rev %d live %v ticket %d verdict %v\n", x.Position, x.Revision, x.Live(), x.Value.Ticket, x.Verdict())
			return true
		})
	}
	return s.String()
}
