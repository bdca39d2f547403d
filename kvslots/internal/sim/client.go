package sim

import (
	"fmt"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// client is a simulated client. Each step sends a request, whose answer leads to the
// next step.
type client interface{ step() }

// baseClient is what clients of all kinds share. Each has its own random source, so
// that turning off a fault changes the other clients as little as possible.
type baseClient struct {
	random
	s    *Simulation
	name string
	done bool
}

func (s *Simulation) newBaseClient(kind string, number int) baseClient {
	return baseClient{s: s, name: fmt.Sprintf("%s %d", kind, number), random: newRandom(s.plan.Seed, uint64(len(s.clients))<<8|0xc1)}
}

func (s *Simulation) newClients() {
	c := s.plan.Clients
	for i := range c.Pools {
		s.addClient(&operator{baseClient: s.newBaseClient("operator", i), pool: poolID(i)})
	}
	for i := range c.Pool {
		s.addClient(&borrower{baseClient: s.newBaseClient("borrower", i)})
	}
	for i := range c.Session {
		s.addClient(&sessionClient{baseClient: s.newBaseClient("session", i)})
	}
	for i := range c.Owned {
		s.addClient(&owner{baseClient: s.newBaseClient("owner", i)})
	}
	for i := range c.Observers {
		s.addClient(&observer{baseClient: s.newBaseClient("observer", i)})
	}
}

func (s *Simulation) addClient(c client) {
	s.clients = append(s.clients, c)
	s.unfinished++
	s.after(s.upTo(time.Second), c.step)
}

func (u *baseClient) finish() {
	if !u.done {
		u.done = true
		u.s.unfinished--
	}
}

func (u *baseClient) think(next func()) {
	d := u.upTo(2 * u.s.plan.Clients.Think)
	if u.s.ending {
		d = u.upTo(100 * time.Millisecond)
	} else if beat := u.s.plan.Clients.Together; beat > 0 {
		at := u.s.now.Add(d + beat)
		d = (at - at%Instant(beat)).Sub(u.s.now)
	}
	u.s.after(d, next)
}

func (u *baseClient) node() *node {
	first := u.rng.IntN(len(u.s.nodes))
	for i := range u.s.nodes {
		if n := u.s.nodes[(first+i)%len(u.s.nodes)]; n.serving() {
			return n
		}
	}
	return nil
}

func (u *baseClient) ask(r peer.Request, then func(*call)) {
	n := u.node()
	if n == nil {
		u.s.after(100*time.Millisecond+u.upTo(time.Second), func() { u.ask(r, then) })
		return
	}
	u.s.ask(u.name, n, r, then)
}

func (u *baseClient) askUntilKnown(r peer.Request, then func(*call)) {
	u.ask(r, func(c *call) {
		if c.unknown() {
			u.s.after(50*time.Millisecond+u.upTo(time.Second), func() { u.askUntilKnown(r, then) })
			return
		}
		then(c)
	})
}

// askImpatiently sends a request and cancels one in ten before its answer.
func (u *baseClient) askImpatiently(r peer.Request, why error, then func(*call)) {
	n := u.node()
	if n == nil {
		u.s.after(100*time.Millisecond+u.upTo(time.Second), func() { u.askImpatiently(r, why, then) })
		return
	}
	c := u.s.ask(u.name, n, r, then)
	if u.chance(0.1) {
		u.s.after(u.upTo(c.target.wait+time.Duration(u.rng.Int64N(int64(20*time.Millisecond)))), func() { c.giveUp(why) })
	}
}

// askWithKey sends a request with a request key, and repeats it while it has no answer, as if
// some answers were lost. Sometimes it does not wait for one before it repeats the request, or
// hangs up. make returns the i-th request.
func (u *baseClient) askWithKey(make func(i int) peer.Request, then func(*call)) {
	var ask func(i int)
	ask = func(i int) {
		n := u.node()
		if n == nil {
			u.s.after(100*time.Millisecond+u.upTo(time.Second), func() { ask(i) })
			return
		}
		again := func() {
			pause := u.upTo(2 * time.Second)
			if u.chance(0.1) {
				pause = u.upTo(20 * time.Second)
			}
			u.s.after(pause, func() { ask(i + 1) })
		}
		ignored, why := false, errHungUp
		if u.chance(0.7) {
			why = peer.ErrPlaceKept
		}
		c := u.s.ask(u.name, n, make(i), func(c *call) {
			switch {
			case ignored:
			case i < 4 && !u.s.ending && (c.unknown() || u.chance(0.3)):
				again()
			default:
				then(c)
			}
		})
		switch {
		case i < 4 && u.chance(0.1):
			u.s.after(u.upTo(c.target.wait+time.Second), func() {
				if c.end == 0 {
					ignored = true
					again()
				}
			})
		case u.chance(0.2):
			u.s.after(u.upTo(c.target.wait+time.Duration(u.rng.Int64N(int64(20*time.Millisecond)))), func() { c.giveUp(why) })
		}
	}
	ask(0)
}

func (u *baseClient) ttl() time.Duration {
	return time.Second + u.upTo(u.s.plan.Clients.TTL-time.Second).Truncate(time.Millisecond)
}

func (u *baseClient) wait() time.Duration {
	if u.chance(0.3) {
		return 0
	}
	return u.upTo(u.s.plan.Clients.Wait)
}

func poolID(n int) entry.Hash { return numberedHash(0x706f6f6c, uint64(n)) }

// nameID returns the pool of a name. A lock and a semaphore of the same name share it.
func nameID(dialect, name string) entry.Hash { return entry.HashOf("named", dialect+"/"+name) }

// leaseOf derives a lease from its session and the nonce of its token, as package
// kvslots does.
func leaseOf(session, nonce entry.Hash) (h entry.Hash) {
	for i := range h {
		h[i] = session[i] ^ nonce[len(h)-1-i] ^ 0x5a
	}
	return h
}
