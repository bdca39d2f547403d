package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

func configKey(pool entry.Hash) entry.Key { return entry.Key{Kind: entry.Config, Pool: pool} }

func (r Inspect) begin(p *Peer, c *call) {
	p.bound(c, p.now.Add(patience))
	p.ask(c, func() { p.inspect(r.Pool, c) })
}

// inspect answers with a pool's state, in an exact view that is new enough. A claim
// that its peer may be about to withdraw is waited for.
func (p *Peer) inspect(id entry.Hash, c *call) {
	pool := p.world.Pool(id)
	switch {
	case !pool.Registered():
		p.answer(c, Answer{Err: ErrNoPool})
	case !p.world.Exact():
		p.whenExact(func() { p.inspect(id, c) })
	case pool.InDoubt(p.now):
		p.againSoon(c, func() { p.inspect(id, c) })
	default:
		p.answer(c, Answer{State: State{Count: pool.Count(), InUse: pool.InUse(), Waiting: pool.Waiting()}})
	}
}

func (r Register) begin(p *Peer, c *call) {
	p.bound(c, p.now.Add(patience))
	p.register(r, c)
}

// register writes a pool's configuration, unless it is what it should be. The
// answer is the state as inspected after the write.
func (p *Peer) register(r Register, c *call) {
	if p.watch.mode != live {
		p.ask(c, func() { p.register(r, c) })
		return
	}
	pool, value := p.world.Pool(r.Pool), entry.ConfigValue{}
	if pool.Registered() {
		value = pool.Config()
	}
	if value.Generation != 0 && value.Count == r.Count {
		p.ask(c, func() {
			if pool := p.world.Pool(r.Pool); pool.Registered() && pool.Count() == r.Count {
				p.inspect(r.Pool, c)
				return
			}
			p.register(r, c)
		})
		return
	}
	value.Count = r.Count
	if value.Generation == 0 {
		value.Generation = p.randomNumber()
	}
	p.writePool(c, r.Pool, value, 0, func(revision uint64) {
		p.askFrom(c, revision, func() { p.inspectAs(r, c) })
	}, func() { p.register(r, c) })
}

// inspectAs answers a registration with the pool's state after it. If the pool has
// been deleted since, that is a pool without leases.
func (p *Peer) inspectAs(r Register, c *call) {
	pool := p.world.Pool(r.Pool)
	switch {
	case !p.world.Exact():
		p.whenExact(func() { p.inspectAs(r, c) })
	case !pool.Registered():
		p.answer(c, Answer{State: State{Count: r.Count}})
	case pool.InDoubt(p.now):
		p.againSoon(c, func() { p.inspectAs(r, c) })
	default:
		p.answer(c, Answer{State: State{Count: pool.Count(), InUse: pool.InUse(), Waiting: pool.Waiting()}})
	}
}

// writePool writes the configuration of a pool: then is called when that was done
// and the view has reached it, else again when it has to be tried again. A call has
// its effect once: when it cannot be known whether a copy of the write had it, the
// call is answered so.
func (p *Peer) writePool(c *call, id entry.Hash, value entry.ConfigValue, ttl time.Duration, then func(uint64), again func()) {
	key := configKey(id)
	expected, _ := p.world.Stands(key)
	m := entry.NewMessage(key, value, expected, ttl)
	m.Author = p.randomNumber()
	p.authored[m.Author] = 0
	w := p.send(m, nil)
	w.done = func(a Ack) {
		if a.Outcome != Conflict {
			delete(p.authored, m.Author)
		}
		switch a.Outcome {
		case Written:
			p.whenReached(a.Revision, func() { then(a.Revision) })
		case Conflict:
			p.whenReached(a.Revision, func() {
				revision := p.authored[m.Author]
				delete(p.authored, m.Author)
				switch {
				case revision != 0:
					then(revision) // by an earlier copy of the write
				case p.mayHaveLanded(w):
					p.answer(c, Answer{Err: ErrUnavailable})
				default:
					p.tryAgain(c, key, expected, a, again)
				}
			})
		default:
			p.answer(c, Answer{Err: ErrUnavailable})
		}
	}
}

func (r Delete) begin(p *Peer, c *call) {
	p.bound(c, p.now.Add(patience))
	p.remove(r, c)
}

// remove marks a pool as deleted, which ends its leases, and purges what it leaves:
// its generation never comes back. The mark stays for long, for the configuration
// has no TTL that a marker could outlive.
func (p *Peer) remove(r Delete, c *call) {
	pool := p.world.Pool(r.Pool)
	if !pool.Registered() || p.watch.mode != live {
		p.ask(c, func() {
			if pool := p.world.Pool(r.Pool); pool.Registered() {
				p.remove(r, c)
				return
			}
			p.answer(c, Answer{})
		})
		return
	}
	value := pool.Config()
	value.Deleted = true
	p.writePool(c, r.Pool, value, rules.DeletionTTL, func(uint64) {
		p.clear(r.Pool, value.Generation)
		p.answer(c, Answer{})
	}, func() { p.remove(r, c) })
}

// clear purges the slots and tickets of a generation that is no more.
func (p *Peer) clear(id entry.Hash, generation uint64) {
	pool := p.world.Pool(id)
	if pool == nil {
		return
	}
	pool.Slots(func(s *rules.Slot) bool {
		if s.Value.Generation == generation && s.Stale() {
			p.release(rules.SlotKey(id, s.Position), s.Revision, nil)
		}
		return true
	})
	pool.Tickets(func(t *rules.Ticket) bool {
		if t.Value.Generation == generation && t.Key.Session != p.self.id && !t.Stands() {
			p.release(t.Key, t.Revision, nil)
		}
		return true
	})
}
