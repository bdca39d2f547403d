package natsapi

import (
	"hash/maphash"
	"time"

	"github.com/kvslots/kvslots/gateway/internal/ops"
)

const (
	// earlyTime, or up to twice that, is how long a cancellation is remembered that
	// arrives before its request. It can only overtake requests that have reached this
	// process.
	earlyTime = time.Second

	// maxEarly is the maximum of cancellations that are remembered in earlyTime, about as
	// many as one goroutine can handle in that time.
	maxEarly = 1 << 17

	// grantedTime is how long a sent grant is remembered, since its client may cancel the
	// request at the same time. maxGranted is the maximum of remembered grants.
	grantedTime = 10 * time.Second
	maxGranted  = 8192
)

// earlyCancels remembers the names of cancelled requests that have not arrived yet. A
// flood of cancellations does not displace earlier names: names beyond maxEarly are not
// remembered. To save memory, it stores hashes of the names.
type earlyCancels struct {
	seed       maphash.Seed
	young, old map[uint64]struct{}
	rotated    time.Time
}

func newEarlyCancels() earlyCancels { return earlyCancels{seed: maphash.MakeSeed()} }

func (e *earlyCancels) put(name string, now time.Time) {
	e.rotate(now)
	if e.young == nil {
		e.young = map[uint64]struct{}{}
	}
	if len(e.young) < maxEarly {
		e.young[maphash.String(e.seed, name)] = struct{}{}
	}
}

func (e *earlyCancels) has(name string, now time.Time) bool {
	e.rotate(now)
	hash := maphash.String(e.seed, name)
	_, young := e.young[hash]
	_, old := e.old[hash]
	return young || old
}

// rotate forgets names that have been remembered for earlyTime.
func (e *earlyCancels) rotate(now time.Time) {
	passed := now.Sub(e.rotated)
	if passed < earlyTime {
		return
	}
	e.old, e.young, e.rotated = e.young, nil, now
	if passed >= 2*earlyTime {
		e.old = nil
	}
}

// recentGrants remembers the latest grants of named requests. The zero value is empty.
type recentGrants struct {
	values map[string]sentGrant
	order  []string // oldest first; may contain names that were taken
}

type sentGrant struct {
	grant *ops.Call
	at    time.Time
}

func (r *recentGrants) put(name string, grant *ops.Call, now time.Time) {
	for len(r.order) > 0 {
		oldest, known := r.values[r.order[0]]
		if known && len(r.order) < maxGranted && now.Sub(oldest.at) < grantedTime {
			break
		}
		delete(r.values, r.order[0])
		r.order = r.order[1:]
	}
	if r.values == nil {
		r.values = map[string]sentGrant{}
	}
	r.values[name] = sentGrant{grant, now}
	r.order = append(r.order, name)
}

// take removes a grant and returns it, or nil if there is none or it is too old.
func (r *recentGrants) take(name string, now time.Time) *ops.Call {
	found := r.values[name]
	delete(r.values, name)
	if now.Sub(found.at) >= grantedTime {
		return nil
	}
	return found.grant
}
