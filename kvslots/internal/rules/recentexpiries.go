package rules

import "time"

// ExpiryMemory is for how long a pool's expired leases are counted, less a twelfth at most.
const ExpiryMemory = time.Hour

// expiries counts a pool's leases that expired, by when they did.
type expiries struct {
	last   int64 // the number of the latest interval
	counts [12]uint32
}

const expiryInterval = Instant(ExpiryMemory / 12)

func (x *expiries) move(now Instant) {
	for n := min(int64(now/expiryInterval)-x.last, int64(len(x.counts))); n > 0; n-- {
		copy(x.counts[1:], x.counts[:])
		x.counts[0] = 0
	}
	x.last = max(x.last, int64(now/expiryInterval))
}

func (x *expiries) note(at, now Instant) {
	x.move(now)
	if ago := int64(now/expiryInterval) - int64(at/expiryInterval); ago >= 0 && ago < int64(len(x.counts)) {
		x.counts[ago]++
	}
}

func (x *expiries) count(now Instant) (n int) {
	x.move(now)
	for _, count := range x.counts {
		n += int(count)
	}
	return n
}
