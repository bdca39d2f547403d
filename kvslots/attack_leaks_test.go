//go:build unix

package kvslots

import (
	"time"
)

// leakedAfter is how long a slot may stay in use after its client has stopped: a claim of
// unknown outcome may be undone late.
const leakedAfter = time.Minute

// auditor looks for leases that no client has, and ends them.
func (a *attack) auditor() {
	for n := 0; a.pause(a.stop, 5*time.Second); n++ {
		for _, p := range a.targets {
			a.audit(a.stores[n%len(a.stores)], p, leakedAfter)
		}
	}
}

func (a *attack) audit(store *cutStore, p *target, after time.Duration) (held int) {
	d, err := store.ReadPool(a.t.Context(), ByID(p.id), DetailPage{MaxHolders: MaxCount, MaxWaiters: 100})
	if err != nil {
		return 1
	}
	for _, h := range d.Holders {
		ended := a.jobs.ended(h.Label)
		if time.Duration(h.ExpiresIn) > 15*time.Second && !ended.IsZero() && time.Since(ended) > after && time.Duration(h.Age) > after {
			a.ledger.Fail("leaked: %+v of %s in the pool of %d, whose job ended at %s", h, h.Label, p.count, timeOfDay(ended))
			a.evict(store, p, h)
		}
	}
	return len(d.Holders) + len(d.Waiters)
}

// finish waits until no client has a slot or a place.
func (a *attack) finish() {
	for _, p := range a.targets {
		eventually(a.t, "a pool is empty", func() bool {
			held := 0
			for _, store := range a.stores {
				held += a.audit(store, p, leakedAfter)
			}
			return held == 0
		})
	}
	var stores []*Store
	for _, store := range a.stores {
		stores = append(stores, store.Store)
	}
	nothingHeld(a.t, stores)
	a.drain()
}
