package peer_test

import (
	"errors"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// A claim was void, since a lower position was free, and was purged; the borrow's next
// claim was granted. The stream has lost that purge and what came after it, so the void
// claim is back. A renewal took it for the lease, and answered with its position and its
// lower fence.
func TestWithdrawnClaimIsNotTheLease(t *testing.T) {
	h := newHarness(t)
	pool := h.newPool(2)
	h.must(h.borrow(pool, 0))
	h.auto = false
	b := h.borrow(pool, 0)
	leases := []entry.Hash{b.Lease, h.hash()}
	b.LeaseOf = func(n int) (lease, nonce entry.Hash) { return leases[n], entry.Hash{} }
	call := h.begin(b)
	void := h.take(entry.Slot)
	freed := h.storePurge(pool)
	claimed := h.store(&void.Message)
	h.feed(freed)
	h.ack(void.ID, peer.Written, claimed.Revision)
	h.feed(claimed)
	h.auto = true
	h.pass(time.Second)
	a := h.granted(call)
	held := peer.Held{Pool: pool, Lease: leases[a.Grant.Claim]}
	if g := h.must(peer.Renew{Held: held, TTL: time.Hour}).Grant; g.Position != 0 || g.Fence != a.Grant.Fence {
		t.Fatalf("renewed to %+v, which was granted as %+v", g, a.Grant)
	}

	h.loseStream()
	h.stands[claimed.Key] = claimed.Revision
	h.load(pool, freed, claimed)
	if renewal := h.answers[h.begin(peer.Renew{Held: held, TTL: time.Hour})]; !errors.Is(renewal.Err, peer.ErrNotHeld) {
		t.Errorf("the renewal is answered %+v, want not held", renewal)
	}
	h.wantError(h.begin(peer.Return{Held: held}), peer.ErrNotHeld)
}
