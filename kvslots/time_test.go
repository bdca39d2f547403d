package kvslots

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

// The peer that granted a lease ends it at its time; if that peer is dead, another one
// ends it a second later.
func TestExpiry(t *testing.T) {
	besideOthers(t)
	srv := natstest.Start(t, "")
	peers := openPeers(t, srv, 2)
	pool := newPool(t, peers[0], 1)
	l, err := peers[0].Borrow(t.Context(), pool, WithFixedTTL(time.Second), WithWait(0))
	natstest.Must(t, err)
	next, err := peers[1].Borrow(t.Context(), pool, WithFixedTTL(time.Second), WithWait(time.Minute))
	natstest.Must(t, err)
	if early := time.Until(l.ExpiresAt()); early > 0 {
		t.Errorf("the next was granted %s before the end", early)
	}
	_ = peers[1].Close(t.Context()) // it granted the second lease
	third, err := peers[0].Borrow(t.Context(), pool, WithFixedTTL(time.Second), WithWait(time.Minute))
	natstest.Must(t, err)
	if early := time.Until(next.ExpiresAt()); early > 0 {
		t.Errorf("the third was granted %s before the end", early)
	}
	if third.Fence() <= next.Fence() || next.Fence() <= l.Fence() {
		t.Errorf("fences %d, %d, %d", l.Fence(), next.Fence(), third.Fence())
	}
}
