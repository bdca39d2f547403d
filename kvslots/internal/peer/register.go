package peer

import (
	"slices"
	"strconv"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
	"github.com/kvslots/kvslots/kvslots/reads"
)

// idleNoted is how long a pool must have been idle for a registration that changes nothing
// to be written, so that all peers see the use. Many callers may register a pool at once.
const idleNoted = time.Second

// registry writes the configurations of registered pools, and what is out of service.
type registry struct{ *leases }

// register writes a pool's configuration, unless a view that is live and as new as the
// call shows that it is up to date, or that the cap on pools leaves no room. The answer is
// the state after the write.
func (p *registry) register(c *call, r Register) {
	p.decide(c, func(current bool) (decided bool) {
		pool := p.view().Pool(r.Pool)
		err := r.reached(p)
		switch {
		case !r.reuses(pool) && !r.isUpToDate(p, pool) && (pool.Exists() || err == nil):
			r.write(p, c)
		case !current:
			return false
		case r.reuses(pool):
			c.answer(Answer{Err: ErrKeyReused})
		case pool.Exists():
			p.answerState(c, r.Pool, r.gone())
		default:
			c.answer(Answer{Err: err})
		}
		return true
	})
}

func (r Register) write(p *registry, c *call) {
	value := entry.ConfigValue{}
	if pool := p.view().Pool(r.Pool); pool.Exists() {
		value = pool.Config
	}
	value.Closing, value.By = false, ""
	if !r.repeats(p.view().Pool(r.Pool)) {
		r.ask(&value)
	}
	if value.Generation == 0 {
		value.Generation, value.Origin = p.randomNumber(), r.Origin
	}
	p.putFor(c, p.config(r.Pool, value), func(*write) {
		p.answerState(c, r.Pool, r.gone())
	}, func() { p.register(c, r) })
}

// gone is the answer if the pool was deleted since: as for a pool without leases.
func (r Register) gone() Answer {
	return Answer{Detail: &reads.Detail{Pool: reads.Pool{State: reads.NewState(r.Count, 0, 0, 0)}}}
}

// answerState answers with what ReadPool reads of a pool without its lists, or with gone if the
// pool does not exist.
func (p *registry) answerState(c *call, id entry.Hash, gone Answer) {
	p.whenCertain(c, id, func(pool *rules.Pool) {
		if pool.Exists() {
			gone = Answer{Detail: detailOf(pool, p.now())}
		}
		c.answer(gone)
	})
}

// maxRequests is how many registrations with a request key a pool remembers, so that a repeat of
// one of them does not undo a later registration.
const maxRequests = 8

// ask sets in a configuration what the registration asks for, and remembers its request key.
func (r Register) ask(value *entry.ConfigValue) {
	value.Count = r.Count
	if r.Title != nil {
		value.Title = *r.Title
	}
	if !r.Request.IsZero() {
		value.Requests = append(slices.Clone(value.Requests), r.Request, r.asked())
		value.Requests = value.Requests[max(0, len(value.Requests)-2*maxRequests):]
	}
}

// asked returns a hash of what the registration asks for.
func (r Register) asked() entry.Hash {
	text := strconv.Itoa(r.Count)
	if r.Title != nil {
		text += " " + *r.Title
	}
	return entry.HashOf(entry.OfRequest, text)
}

func (r Register) repeats(pool *rules.Pool) bool { return !r.remembered(pool).IsZero() }

// reuses reports whether the pool remembers that the request key has asked for something else.
func (r Register) reuses(pool *rules.Pool) bool {
	return r.repeats(pool) && r.remembered(pool) != r.asked()
}

// remembered returns the hash of what the request key has asked for, or zero.
func (r Register) remembered(pool *rules.Pool) (asked entry.Hash) {
	if r.Request.IsZero() || !pool.Exists() {
		return asked
	}
	for pair := range slices.Chunk(pool.Config.Requests, 2) {
		if pair[0] == r.Request {
			asked = pair[1]
		}
	}
	return asked
}

// isUpToDate reports whether a registration need not be written: the pool has what it asks for
// already, and would not be counted as idle. A repeat asks for what the pool has.
func (r Register) isUpToDate(p *registry, pool *rules.Pool) bool {
	if !pool.Exists() || pool.Closing() {
		return false
	}
	if r.repeats(pool) {
		return true
	}
	return r.Request.IsZero() && pool.Size() == r.Count && (r.Title == nil || *r.Title == pool.Config.Title) &&
		(p.settings().PoolIdle == 0 || pool.InUseOrWaited() || p.now().Sub(pool.LastUse()) < idleNoted)
}

// reached returns which cap forbids another pool.
func (r Register) reached(p *registry) error {
	err := p.tombstonesReached(r.Origin)
	if err == nil {
		err = reached(p.view().Registered.Pools, p.settings().MaxPools, ErrMaxPools)
	}
	if err == nil && !r.Origin.IsZero() {
		err = reached(p.view().RegisteredBy(r.Origin), p.settings().MaxPoolsPerOrigin, ErrMaxPools)
	}
	return err
}
