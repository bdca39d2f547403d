package kvslots

import "github.com/kvslots/kvslots/kvslots/internal/entry"

// watch has the lease ended when the view sees that it is there no more.
func (s *Store) watch(l *Lease) {
	id := poolHash(l.pool)
	b := s.bucketOf(id)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closing {
		return
	}
	if b.watched[id] == nil {
		b.watched[id] = map[*Lease]entry.Hash{}
	}
	b.watched[id][l] = leaseHash(l.id)
	b.lookAfter(id)
}

func (s *Store) unwatch(l *Lease) {
	id := poolHash(l.pool)
	b := s.bucketOf(id)
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.watched[id], l)
	if len(b.watched[id]) == 0 {
		delete(b.watched, id)
	}
}

// lookAfter ends the leases of a pool that the view shows no more. A lease that
// is watched was in the view, and one that is gone does not come back.
func (b *bucket) lookAfter(id entry.Hash) {
	if len(b.watched[id]) == 0 || !b.loaded {
		return
	}
	p := b.world.Pool(id)
	for l, hash := range b.watched[id] {
		if p == nil || p.Lease(hash) == nil {
			go l.end()
		}
	}
}
