package sim

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// Situations of enqueued tickets that need several writes at one moment. They are counted as
// coverage; the usual checks of grants apply to what follows.
const (
	leaseTakenOver = "situation: another session has the slot of a wait that is not answered yet"
	twoClaims      = "situation: two claims for one enqueued ticket, while another write of it is under way"
)

func (t *truth) noteRaces(p *poolTruth, e *entry.Entry) {
	for _, c := range p.calls {
		if _, awaits := c.request.(peer.Await); !awaits || c.decided != 0 || c.end != 0 {
			continue
		}
		switch mine := e.Slot.Session == c.target.session; {
		case mine && !e.Slot.Unseen && e.Slot.Ticket != 0:
			c.facts.marked = e.Key
		case !mine && e.Slot.Fence == 0 && c.facts.marked == e.Key:
			t.s.met.add(leaseTakenOver)
		}
	}
	if e.Slot.Fence != 0 || e.Slot.Ticket == 0 {
		return
	}
	for _, w := range p.tickets {
		if w.place == e.Slot.Ticket && w.Ticket.Enqueued() && t.s.server.ticketWrites[w.Key] > 0 && p.servedBesides(w, e.Key) {
			t.s.met.add(twoClaims)
		}
	}
}

// servedBesides reports whether a slot other than that with the key serves a ticket.
func (p *poolTruth) servedBesides(w *ticketTruth, key entry.Key) bool {
	for _, s := range p.slots {
		if s.Slot.Ticket == w.place && s.Key != key {
			return true
		}
	}
	return false
}

func (v *server) noteUnderWay(w *peer.Write, n int) {
	if w.Key.Kind == entry.Ticket {
		if v.ticketWrites[w.Key] += n; v.ticketWrites[w.Key] == 0 {
			delete(v.ticketWrites, w.Key)
		}
	}
}
