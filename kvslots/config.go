package kvslots

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// Config configures a Store. The zero Config is ready for use.
type Config struct {
	// Replicas is the number of replicas of the bucket if Open creates it, 1 … 5;
	// 0 means 1.
	Replicas int

	// MaxTTL is the longest lease, at most a year; longer ones are clamped to it.
	// 0 means DefaultMaxTTL.
	MaxTTL time.Duration

	// The caps limit the whole bucket, not this Store alone. 0 means no limit. Peers
	// that decide at the same instant may exceed a cap by a few.
	//
	//   - MaxPools: registered pools. The count of a registered pool can be changed
	//     even when the cap is reached.
	//   - MaxPoolsPerOrigin: registered pools of one origin, see WithOrigin.
	//   - MaxLocks: locks and semaphores that are held or waited for, or of which anything is
	//     out of service.
	//   - MaxWaiters: places in the line of each pool, lock and semaphore.
	//   - MaxSessions: sessions.
	//   - MaxSessionsPerOrigin: sessions of one origin, see Store.CreateSession.
	//   - MaxLocksPerSession: locks and semaphores that one session holds or waits for.
	//   - MaxLocksPerOrigin: locks and semaphores that the sessions of one origin hold or
	//     wait for, its owned locks, see Store.LockOwned, and those of which it has taken
	//     something out of service, see Store.TakeOut.
	MaxPools, MaxLocks, MaxWaiters, MaxSessions, MaxSessionsPerOrigin int
	MaxPoolsPerOrigin, MaxLocksPerSession, MaxLocksPerOrigin          int

	// MaxPlaces and MaxPlacesPerOrigin limit the places in line that calls with a request key
	// have: in all, and of one origin. Beyond a limit, the oldest places of the origin that
	// no caller waits at are dropped before the ResumeGrace is over, so that clients that have
	// gone have no more places than clients that wait. 0 means no limit.
	MaxPlaces, MaxPlacesPerOrigin int

	// MaxTombstones limits what pools, names and sessions leave in the bucket when they end:
	// the markers of their keys, for 11 to 21 minutes after their time is over. One
	// origin may leave half as many; and if all together have left MaxTombstones, an origin is
	// refused that has left as much as an equal share of them. So what one origin leaves never
	// has another one refused. 0 means no limit. See WithOrigin and Store.CreateSession.
	MaxTombstones int

	// PoolIdle is how long a registered pool may be unused before it is unregistered, as
	// by Delete, from a second to a year; 0 means that pools stay. A pool is unused while
	// no slot of it is lent, no borrower waits for one, and it is not registered again. A
	// Borrow at the moment of the end is granted a valid lease, or returns ErrNoPool. Each
	// peer counts by its own clock from when it has loaded the bucket. All peers should
	// have the same PoolIdle.
	PoolIdle time.Duration

	// ResumeGrace is how long a call with a request key keeps its place in line
	// after its caller has gone, so that a repeat finds it: see WithRequestKey. It also keeps
	// the place at the end of the wait. At most MaxResumeGrace; 0 means that nothing is kept.
	ResumeGrace time.Duration

	// Sole asserts that no other peer can be running, as when this process embeds
	// the server and no other process can reach the bucket. Open then removes at once
	// the places in line that earlier peers left. Leases stay.
	Sole bool

	// Durable is for a server that acknowledges writes before it has flushed them to
	// disk. Durable must call then exactly once: with nil as soon as every write that
	// the server acknowledged or delivered before the call would survive a power cut,
	// or with an error if that cannot be known. Durable must not block, may call then
	// before it returns, and may be called concurrently. The Store calls Durable for
	// each answer and holds the answer back until then is called; after an error the
	// caller gets ErrUnavailable. See Server.Flusher of package natsembed.
	//
	// nil means that an acknowledged write needs no further step, as with replicas or
	// with a server that flushes each write.
	Durable func(then func(error))

	// Room returns nil while the server has room for new entries, and otherwise an
	// error that says what is full. Meanwhile the methods that add entries (Borrow,
	// Register, CreateSession, Acquire, Enqueue and LockOwned) and Ready return
	// ErrFull, which wraps that error; or, if that error wraps a syscall.Errno that is not
	// about space, such as EACCES, ErrUnavailable. The other methods still work. Room must not
	// block, and may be called concurrently. nil means that there is always room. See
	// natsembed.Server.
	Room func() error

	// Embedded is the server in this process that the Store's connection leads to, such as a
	// *natsembed.Server. It stands for Sole, and for Durable and Room if these are nil: so one
	// field configures a Store on a server of its own. nil means none.
	Embedded EmbeddedServer

	// Logger receives the Store's log messages. They contain no secrets. nil means no log.
	Logger *slog.Logger
}

// EmbeddedServer is a server in the process of its Store, which no other process can reach.
type EmbeddedServer interface {
	Durable(then func(error)) // see Config.Durable
	Room() error              // see Config.Room
}

// MaxResumeGrace is the longest Config.ResumeGrace.
const MaxResumeGrace = 10 * time.Minute

// Defaults of Config.
const (
	DefaultMaxTTL = time.Hour

	// DefaultMaxWait is the longest wait that gateways grant.
	DefaultMaxWait = time.Minute

	// DefaultResumeGrace is the Config.ResumeGrace of gateways.
	DefaultResumeGrace = 10 * time.Second
)

const year = 365 * 24 * time.Hour

func (c Config) withDefaults() (Config, error) {
	c.Replicas = cmp.Or(c.Replicas, 1)
	c.MaxTTL = cmp.Or(c.MaxTTL, DefaultMaxTTL)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if server := c.Embedded; server != nil {
		c.Sole = true
		if c.Durable == nil {
			c.Durable = server.Durable
		}
		if c.Room == nil {
			c.Room = server.Room
		}
	}
	switch {
	case c.Replicas < 1 || c.Replicas > 5:
		return c, &RangeError{"replicas", "between 1 and 5"}
	case c.MaxTTL < time.Second || c.MaxTTL > year:
		return c, &RangeError{"max-ttl", "between 1s and a year"}
	case c.ResumeGrace < 0 || c.ResumeGrace > MaxResumeGrace:
		return c, &RangeError{"resume-grace", "between 0s and 10m"}
	case c.PoolIdle != 0 && (c.PoolIdle < time.Second || c.PoolIdle > year):
		return c, &RangeError{"pool-idle", "0, or between 1s and a year"}
	}
	return c, nil
}

func (c Config) peer() peer.Config {
	return peer.Config{
		Sole: c.Sole, PoolIdle: c.PoolIdle, MaxPools: c.MaxPools, MaxLocks: c.MaxLocks, MaxWaiters: c.MaxWaiters,
		MaxSessions: c.MaxSessions, MaxSessionsPerOrigin: c.MaxSessionsPerOrigin,
		MaxPoolWaiters: c.MaxWaiters, MaxLocksPerSession: c.MaxLocksPerSession, MaxLocksPerOrigin: c.MaxLocksPerOrigin,
		MaxPoolsPerOrigin: c.MaxPoolsPerOrigin, MaxTombstones: c.MaxTombstones, ResumeGrace: c.ResumeGrace,
		MaxPlaces: c.MaxPlaces, MaxPlacesPerOrigin: c.MaxPlacesPerOrigin,
	}
}
