package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// expire purges a slot whose lease is over. If the slot was claimed for an enqueued ticket,
// expire first takes the ticket out of the line: it purges the ticket, or marks it as spent
// if the session has not called Await since, so that the session can still be told.
func (p *leases) expire(d rules.DueKey) {
	s := d.Slot
	m := p.purgeSlot(s)
	m.Cause = entry.Expired
	done := p.expired(s)
	t := leftTicket(s)
	if t == nil {
		p.discardAs(m, done)
		return
	}
	if p.isWritingOver(t.Key, t.Revision) {
		return
	}
	leaves := p.purge(t.Key, t.Revision)
	if s.Value.Unseen {
		value := t.Value
		value.Spent, value.Place = true, t.Place
		leaves = p.value(t.Key, &value, t.Revision, rules.EnqueuedLife)
	}
	p.put(leaves, func(w *write) {
		if w.written() { // otherwise cleanUp tries again
			p.discardAs(m, done)
		}
	})
}
