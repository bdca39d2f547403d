package natsapi

import (
	"hash/maphash"
	"time"
)

// recent remembers values by name for a time: a value is forgotten between one and two of its
// ages after put, and before that if there are too many. To save memory, it stores hashes of
// the names.
type recent[V any] struct {
	age  time.Duration
	most int // of the values that are put in one age; more displace older ones

	seed       maphash.Seed
	young, old map[uint64]V
	rotated    time.Time
}

const (
	// grantedAge is that of a sent grant, since its client may cancel the request at the same
	// time. maxGranted is the maximum in that time.
	grantedAge = 5 * time.Second
	maxGranted = 4096

	// earlyAge is that of a cancellation that has overtaken its request, which has reached this process then. maxEarly is the
	// maximum in that time.
	earlyAge = time.Second
	maxEarly = 1 << 14
)

func newRecent[V any](age time.Duration, most int) recent[V] {
	return recent[V]{age: age, most: most, seed: maphash.MakeSeed()}
}

func (r *recent[V]) put(name string, v V, now time.Time) {
	r.rotate(now)
	if len(r.young) >= r.most {
		r.old, r.young = r.young, nil
	}
	if r.young == nil {
		r.young = map[uint64]V{}
	}
	r.young[maphash.String(r.seed, name)] = v
}

// get returns the value that was last put under a name, or the zero value.
func (r *recent[V]) get(name string, now time.Time) (v V, known bool) {
	r.rotate(now)
	hash := maphash.String(r.seed, name)
	if v, known = r.young[hash]; !known {
		v, known = r.old[hash]
	}
	return v, known
}

func (r *recent[V]) remove(name string) {
	hash := maphash.String(r.seed, name)
	delete(r.young, hash)
	delete(r.old, hash)
}

func (r *recent[V]) rotate(now time.Time) {
	passed := now.Sub(r.rotated)
	if passed < r.age {
		return
	}
	r.old, r.young, r.rotated = r.young, nil, now
	if passed >= 2*r.age {
		r.old = nil
	}
}
