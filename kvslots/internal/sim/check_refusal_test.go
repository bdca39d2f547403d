package sim

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/reads"
)

// TestRefusedForAClaim checks a refusal and a state that are right only if a claim
// counts as a lease.
func TestRefusedForAClaim(t *testing.T) {
	for name, test := range map[string]struct {
		doubtful bool          // the claim names a ticket that is not in the line
		after    time.Duration // from the claim to the answer
		right    bool
	}{
		"withdrawn":             {doubtful: true, after: 10 * time.Millisecond},
		"good":                  {after: 10 * time.Millisecond, right: true},
		"not withdrawn in time": {doubtful: true, after: doubtTime, right: true},
	} {
		for what, answer := range map[string]struct {
			request peer.Request
			answer  peer.Answer
		}{
			"no slot": {request: peer.Borrow{Pool: poolID(0), Lease: hashOf(0x2_0000), TTL: time.Minute}, answer: peer.Answer{Err: peer.ErrNoSlot}},
			"a state": {request: peer.ReadPool{Pool: poolID(0)}, answer: readOf(reads.State{Count: 1, InUse: 1})},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				x := newCheckerTest(t)
				x.config(1)
				x.presence()
				claim := entry.SlotValue{Lease: hashOf(0x1_0000)}
				if test.doubtful {
					claim.Ticket = 99
				}
				c := x.ask(answer.request)
				x.claimWith(0, claim)
				x.sleep(test.after)
				c.finish(answer.answer)
				x.write(x.slotKey(0), nil)
				x.sleep(doubtTime)
				if failed := x.failed != nil; failed == test.right {
					t.Errorf("failure %v", x.failed)
				}
			})
		}
	}
}
