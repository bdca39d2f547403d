package peer_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// A claim was written and then purged by another peer, which thereby took its ticket out
// of the line, and the view has skipped both. All that the claim's peer learns is that a
// second copy of the claim was refused. It must not use the ticket again.
func TestClaimThatMayHaveBeenWrittenUsesUpTicket(t *testing.T) {
	const (
		refused = "the refusal"
		other   = "an entry of another key"
		next    = "the position's next entry"
	)
	for _, order := range [][]string{{refused, other, next}, {refused, next}, {next, refused}, {other, refused}} {
		t.Run(order[0]+", "+order[1], func(t *testing.T) {
			h := newHarness(t)
			pool := h.newPool(1)
			held := h.borrow(pool, 0)
			h.must(held)
			h.begin(h.borrow(pool, time.Hour))
			h.auto = false
			h.begin(giveBack(held))
			purge := h.take(entry.Slot)
			h.publish(&purge)
			claim := h.take(entry.Slot)
			h.pass(time.Second)
			again := h.take(entry.Slot)

			claimed := h.store(&claim.Message)
			barrier := entry.NewMessage(entry.Key{Kind: entry.Barrier, Session: h.hash()}, entry.BarrierValue{}, 0, rules.Guard)
			between := h.store(&barrier)
			ended := entry.NewPurge(claim.Key, claimed.Revision, rules.MarkerTTL)
			ended = entry.NewPurge(claim.Key, h.store(&ended).Revision, rules.MarkerTTL)
			after := h.store(&ended)
			for _, step := range order {
				switch step {
				case refused:
					h.ack(again.ID, peer.Conflict, claimed.Revision)
				case other:
					h.apply(between)
				case next:
					h.apply(after)
				}
			}
			h.pass(time.Second)
			if w := h.take(entry.Ticket); !w.Marker {
				t.Errorf("the peer has written %+v, and not purged the ticket", w.Message)
			}
		})
	}
}
