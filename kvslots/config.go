package kvslots

import (
	"cmp"
	"time"

	"github.com/rs/zerolog"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// Config says how a Store works. The zero Config is ready for use.
type Config struct {
	// Replicas of the bucket when Open has to create it, 1 … 5; 0 means 1.
	Replicas int

	// MaxTTL is the longest lease; what is asked for beyond it is clamped.
	// 0 means an hour. At most a year.
	MaxTTL time.Duration

	// MaxWait is the longest time in line; what is asked for beyond it is
	// clamped. 0 means a minute. At most a year.
	MaxWait time.Duration

	// MaxPools is how many pools may be registered, over all peers. A pool that is
	// registered may be registered again above it. 0 means any number. Peers that
	// decide in the same instant may go beyond it by a few.
	MaxPools int

	// MaxLocks is how many keys may be held or waited for as locks and
	// semaphores, MaxWaiters how many may stand in the line of each, and
	// MaxSessions how many sessions there may be, over all peers, and
	// MaxSessionsPerOrigin of one origin. MaxPoolWaiters is how many borrowers
	// may stand in the line of each pool. 0 means any number. Peers that
	// decide in the same instant may go beyond them by a few.
	MaxLocks, MaxWaiters, MaxSessions, MaxSessionsPerOrigin, MaxPoolWaiters int

	// Sole says that no other peer can be alive, as when this process embeds
	// the server and no other process can reach the bucket. Open then ends at once
	// what earlier peers left: their places in the lines, not their leases.
	Sole bool

	// Durable is for a server that acknowledges writes before it has flushed them to
	// disk. It must call then once, after everything that the server acknowledged, or
	// let be read, before the call survives a power cut; or with an error when it will
	// never be known. It must not block, may call then before it returns, and may be
	// called concurrently. The Store calls it for each answer, and gives the answer to
	// its caller only in then; after an error the caller gets ErrUnavailable. See
	// natsembed.Flusher.
	//
	// nil means that what is acknowledged is durable as far as it will ever be, as with
	// replicas, or a server that flushes each write.
	Durable func(then func(error))

	// Room returns nil while the server has room for new entries, and otherwise why it
	// has not. Meanwhile the methods that need new entries return ErrUnavailable (Borrow,
	// Register, CreateSession, Acquire, Enqueue and LockOwned), and Ready returns the
	// reason. Renewing, returning and deleting go on. Room must not block, and may be
	// called concurrently. nil means that there is always room. See natsembed.Server.
	Room func() error

	// Logger gets what an operator should know. No secret reaches it.
	Logger zerolog.Logger
}

// The defaults of Config.
const (
	DefaultMaxTTL  = time.Hour
	DefaultMaxWait = time.Minute
)

func (c Config) withDefaults() (Config, error) {
	c.Replicas = cmp.Or(c.Replicas, 1)
	c.MaxTTL = cmp.Or(c.MaxTTL, DefaultMaxTTL)
	c.MaxWait = cmp.Or(c.MaxWait, DefaultMaxWait)
	const year = 365 * 24 * time.Hour
	switch {
	case c.Replicas < 1 || c.Replicas > 5:
		return c, &RangeError{"replicas", "between 1 and 5"}
	case c.MaxTTL < time.Second || c.MaxTTL > year:
		return c, &RangeError{"max-ttl", "between 1s and a year"}
	case c.MaxWait < 0 || c.MaxWait > year:
		return c, &RangeError{"max-wait", "between 0s and a year"}
	}
	return c, nil
}

func (c Config) peer() peer.Config {
	return peer.Config{
		Sole: c.Sole, MaxPools: c.MaxPools, MaxLocks: c.MaxLocks, MaxWaiters: c.MaxWaiters,
		MaxSessions: c.MaxSessions, MaxSessionsPerOrigin: c.MaxSessionsPerOrigin,
		MaxPoolWaiters: c.MaxPoolWaiters,
	}
}
