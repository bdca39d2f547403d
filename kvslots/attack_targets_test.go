//go:build unix

package kvslots

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

// target is a pool.
type target struct {
	id      uuid.UUID
	count   int
	roomy   bool // no operator touches it
	deleted bool // it is deleted and registered again and again

	mu    sync.Mutex
	gone  []period         // it may have been missing
	out   map[int][]period // a position was certainly out of service
	calls []*period        // of a roomy pool: a client may have had a slot
}

// use notes that a client may have a slot from now on.
func (p *target) use(during *period) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.roomy {
		return
	}
	kept := p.calls[:0]
	for _, c := range p.calls {
		if c.to.IsZero() || time.Since(c.to) < time.Minute {
			kept = append(kept, c)
		}
	}
	p.calls = append(kept, during)
}

func (p *target) free(during *period, to time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	during.to = to
}

// used returns how many clients may have had a slot at some time.
func (p *target) used(during period) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.calls {
		if c.overlaps(during) {
			n++
		}
	}
	return n
}

// missing reports whether the pool may have been missing at some time.
func (p *target) missing(during period) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return overlap(p.gone, during) > 0
}

// isOut reports whether a position was out of service all the time.
func (p *target) isOut(position int, during period) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.out[position] {
		if s.from.Before(during.from) && (s.to.IsZero() || s.to.After(during.to)) {
			return true
		}
	}
	return false
}
