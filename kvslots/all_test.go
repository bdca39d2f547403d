package kvslots

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

// Fifty jobs take some of the same pools, in any order, and never wait for each other.
func TestBorrowAllNeverDeadlocks(t *testing.T) {
	s := openPeers(t, natstest.Start(t, ""), 1)[0]
	pools := make([]uuid.UUID, 4)
	for i := range pools {
		pools[i] = uuid.New()
		natstest.Must(t, natstest.Err(s.Register(t.Context(), pools[i], 1)))
	}
	var jobs sync.WaitGroup
	for i := range 50 {
		wanted := append([]uuid.UUID{}, pools...)
		rand.Shuffle(len(wanted), func(i, j int) { wanted[i], wanted[j] = wanted[j], wanted[i] })
		wanted = wanted[:2+i%3]
		jobs.Go(func() {
			leases, err := BorrowAll(t.Context(), s, wanted, WithFixedTTL(10*time.Minute), WithWait(5*time.Minute))
			if err != nil || len(leases) != len(wanted) {
				t.Errorf("%d leases, %v", len(leases), err)
			}
			for i, lease := range leases {
				if ok, err := s.Return(t.Context(), wanted[i], lease.ID()); !ok || err != nil {
					t.Errorf("the lease of pool %d was not returned: %v", i, err)
				}
			}
		})
	}
	jobs.Wait()
}

func TestBorrowAllOrNothing(t *testing.T) {
	s := openPeers(t, natstest.Start(t, ""), 1)[0]
	free, taken := uuid.New(), uuid.New()
	for pool, count := range map[uuid.UUID]int{free: 1, taken: 0} {
		natstest.Must(t, natstest.Err(s.Register(t.Context(), pool, count)))
	}
	for _, pools := range [][]uuid.UUID{{free, taken}, {taken, free}} {
		if _, err := BorrowAll(t.Context(), s, pools, WithFixedTTL(time.Minute), WithWait(0)); !errors.Is(err, ErrNoSlot) {
			t.Errorf("got %v", err)
		}
		if state, err := s.Inspect(t.Context(), free); err != nil || state.InUse != 0 {
			t.Errorf("%+v, %v", state, err)
		}
	}
	if _, err := BorrowAll(t.Context(), s, []uuid.UUID{free, free}, WithFixedTTL(time.Minute), WithWait(0)); err == nil {
		t.Error("a pool was given twice")
	}
}

// While it waits for one slot, the leases of the others are renewed.
func TestBorrowAllRenews(t *testing.T) {
	besideOthers(t)
	s := openPeers(t, natstest.Start(t, ""), 1)[0]
	first, last := uuid.UUID{1}, uuid.UUID{2}
	for pool, count := range map[uuid.UUID]int{first: 1, last: 0} {
		natstest.Must(t, natstest.Err(s.Register(t.Context(), pool, count)))
	}
	var leases []*Lease
	var err error
	var all sync.WaitGroup
	all.Go(func() {
		leases, err = BorrowAll(t.Context(), s, []uuid.UUID{last, first}, WithFixedTTL(2*time.Second), WithWait(time.Minute))
	})
	if _, err := s.Borrow(t.Context(), last, WithFixedTTL(time.Second), WithWait(4*time.Second)); !errors.Is(err, ErrNoSlot) { // twice the ttl
		t.Errorf("got %v", err)
	}
	if _, err := s.Borrow(t.Context(), first, WithFixedTTL(time.Second), WithWait(0)); !errors.Is(err, ErrNoSlot) {
		t.Errorf("the first was not held: %v", err)
	}
	natstest.Must(t, natstest.Err(s.Register(t.Context(), last, 1)))
	all.Wait()
	if err != nil || leases[0].Err() != nil || leases[1].Err() != nil {
		t.Errorf("got %v", err)
	}
}
