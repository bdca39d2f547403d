package peer

import (
	"math/rand/v2"
	"time"
)

type Config struct {
	// Replicated is set if the stream has replicas: then a barrier must be a write.
	Replicated bool
	// Sole is set if no other peer can be alive: when the view is loaded, the
	// presences of earlier peers end, and with them their tickets.
	Sole bool
	// PoolIdle is the time without use after which a registered pool is unregistered; 0
	// means never.
	PoolIdle time.Duration
	// The caps on registered pools, and on those that the clients of one origin have registered. 0
	// means any number.
	MaxPools, MaxPoolsPerOrigin int
	// The caps on named pools in use, waiters in each of them, client sessions, client
	// sessions of one origin, and waiters in each registered pool. 0 means any number.
	MaxLocks, MaxWaiters, MaxSessions, MaxSessionsPerOrigin, MaxPoolWaiters int
	// MaxTombstones is the cap on keys of pools and sessions that have ended: see
	// rules.View.TombstonesReach. 0 means any number.
	MaxTombstones int
	// The caps on named pools in which one client session, and the clients of one origin,
	// have slots or tickets. 0 means any number.
	MaxLocksPerSession, MaxLocksPerOrigin int
	// The caps on the places in all lines that have request keys, and on those of one origin, beyond
	// which places without a caller are purged: see rules.View.limitPlaces. 0 means any number.
	MaxPlaces, MaxPlacesPerOrigin int
	// ResumeGrace is how long a borrow with a request key keeps its place when
	// its caller has gone; 0 means not at all.
	ResumeGrace time.Duration
	// Random is the only source of randomness.
	Random rand.Source
}
