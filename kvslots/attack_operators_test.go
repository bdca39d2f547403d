//go:build unix

package kvslots

import (
	"math/rand/v2"
	"time"
)

// touched reports whether an operator may have ended a lease since.
func (a *attack) touched(p *target, t *toldLease, since time.Time) bool {
	a.told.Lock()
	evicted := a.evicted[leaseKey{p.id, t.lease.Position(), t.Fence}]
	a.told.Unlock()
	return evicted || p.missing(period{since, time.Now()})
}

// end notes that an operator may end a lease from now on. It must be called with a.told locked.
func (a *attack) end(t *toldLease) {
	if !t.ended {
		t.ended = true
		a.ledger.GiveBack(t.Told)
	}
}

func (a *attack) evictor(r *rand.Rand) {
	for a.pause(a.stop, time.Duration(r.IntN(400))*time.Millisecond) {
		p := a.targets[r.IntN(len(a.targets))]
		if p.roomy {
			continue
		}
		began := time.Now()
		d, err := a.any(r).ReadPool(a.t.Context(), ByID(p.id), DetailPage{MaxHolders: 10})
		if !a.count("read pool", began, 0, err) || len(d.Holders) == 0 {
			continue
		}
		h := d.Holders[r.IntN(len(d.Holders))]
		if a.jobs.ended(h.Label).IsZero() { // otherwise it may have leaked
			a.evict(a.any(r), p, h)
		}
	}
}

func (a *attack) evict(store *cutStore, p *target, h HolderStats) {
	key := leaseKey{p.id, h.Position, h.Fence}
	a.told.Lock()
	a.evicted[key] = true
	if t := a.leases[key]; t != nil {
		a.end(t)
	}
	a.told.Unlock()
	began := time.Now()
	_, err := store.Evict(a.t.Context(), ByID(p.id), h.Position, h.Fence)
	a.count("evict", began, 0, err)
}

func (a *attack) outOfService(r *rand.Rand) {
	for a.pause(a.stop, time.Duration(r.IntN(500))*time.Millisecond) {
		p := a.targets[r.IntN(len(a.targets))]
		if p.roomy || p.deleted {
			continue
		}
		position := r.IntN(p.count)
		began := time.Now()
		_, err := a.any(r).TakeOut(a.t.Context(), ByID(p.id), OutOfService{Position: position, Reason: "attack"})
		if a.count("take out", began, 0, err) {
			p.mu.Lock()
			p.out[position] = []period{{from: time.Now()}}
			p.mu.Unlock()
		}
		time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
		p.mu.Lock()
		for i := range p.out[position] {
			p.out[position][i].to = time.Now()
		}
		p.mu.Unlock()
		for done := false; !done; {
			began := time.Now()
			_, err := a.any(r).PutBack(a.t.Context(), ByID(p.id), position)
			done = a.count("put back", began, 0, err)
		}
	}
}

// deleter deletes a pool and registers it again.
func (a *attack) deleter(r *rand.Rand) {
	for a.pause(a.stop, time.Duration(r.IntN(3000))*time.Millisecond) {
		for _, p := range a.targets {
			if !p.deleted {
				continue
			}
			p.mu.Lock()
			p.gone = append(p.gone, period{from: time.Now()})
			gone := &p.gone[len(p.gone)-1]
			p.mu.Unlock()
			a.told.Lock()
			for key, t := range a.leases {
				if key.pool == p.id {
					a.end(t)
				}
			}
			a.told.Unlock()
			for done := false; !done; {
				began := time.Now()
				done = a.count("delete", began, 0, a.any(r).Delete(a.t.Context(), p.id))
			}
			time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
			for done := false; !done; {
				began := time.Now()
				_, err := a.any(r).Register(a.t.Context(), p.id, p.count)
				done = a.count("register", began, 0, err)
			}
			p.mu.Lock()
			gone.to = time.Now()
			p.mu.Unlock()
		}
	}
}
