package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// client acts step by step: each step asks something, and its answer leads to
// the next step.
type client interface{ step() }

// user is what clients of every kind have: their own source of chance, so that a
// fault more or less changes as little as possible.
type user struct {
	s    *Simulation
	name string
	rng  *rand.Rand
	done bool
}

func (s *Simulation) newUser(kind string, number int) user {
	return user{s: s, name: fmt.Sprintf("%s %d", kind, number), rng: rand.New(rand.NewPCG(s.plan.Seed, uint64(len(s.clients))<<8|0xc1))}
}

func (s *Simulation) newClients() {
	c := s.plan.Clients
	for i := range c.Pools {
		s.addClient(&operator{user: s.newUser("operator", i), pool: poolID(i)})
	}
	for i := range c.Pool {
		s.addClient(&borrower{user: s.newUser("borrower", i)})
	}
	for i := range c.Session {
		s.addClient(&holder{user: s.newUser("session", i)})
	}
	for i := range c.Owned {
		s.addClient(&owner{user: s.newUser("owner", i)})
	}
}

func (s *Simulation) addClient(c client) {
	s.clients = append(s.clients, c)
	s.busy++
	s.after(s.upTo(time.Second), c.step)
}

// finished is when a client has ended all that it began.
func (u *user) finished() {
	if !u.done {
		u.done = true
		u.s.busy--
	}
}

func (u *user) chance(rate float64) bool { return rate > 0 && u.rng.Float64() < rate }

func (u *user) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(u.rng.Int64N(int64(d)))
}

// think lets some time pass before the next step.
func (u *user) think(next func()) {
	d := u.upTo(2 * u.s.plan.Clients.Think)
	if u.s.ending {
		d = u.upTo(100 * time.Millisecond)
	} else if beat := u.s.plan.Clients.Together; beat > 0 {
		at := u.s.now.Add(d + beat)
		d = (at - at%Instant(beat)).Sub(u.s.now)
	}
	u.s.after(d, next)
}

// node is a peer that takes requests: another one for each call. It returns nil
// when none does.
func (u *user) node() *node {
	first := u.rng.IntN(len(u.s.nodes))
	for i := range u.s.nodes {
		if n := u.s.nodes[(first+i)%len(u.s.nodes)]; n.usable() {
			return n
		}
	}
	return nil
}

// ask asks any peer. While there is none, it tries again later.
func (u *user) ask(r peer.Request, then func(*call)) {
	n := u.node()
	if n == nil {
		u.s.after(100*time.Millisecond+u.upTo(time.Second), func() { u.ask(r, then) })
		return
	}
	u.s.ask(u.name, n, r, then)
}

// askUntil asks until the answer is known, as a user does whose call can be
// repeated.
func (u *user) askUntil(r peer.Request, then func(*call)) {
	u.ask(r, func(c *call) {
		if c.unknown() {
			u.s.after(50*time.Millisecond+u.upTo(time.Second), func() { u.askUntil(r, then) })
			return
		}
		then(c)
	})
}

// askImpatiently asks, and gives up at times before the answer comes.
func (u *user) askImpatiently(r peer.Request, why error, then func(*call)) {
	n := u.node()
	if n == nil {
		u.s.after(100*time.Millisecond+u.upTo(time.Second), func() { u.askImpatiently(r, why, then) })
		return
	}
	c := u.s.ask(u.name, n, r, then)
	if u.chance(0.1) {
		u.s.after(u.upTo(c.wait()+time.Duration(u.rng.Int64N(int64(20*time.Millisecond)))), func() { c.giveUp(why) })
	}
}

func (u *user) ttl() time.Duration {
	return time.Second + u.upTo(u.s.plan.Clients.TTL-time.Second).Truncate(time.Millisecond)
}

func (u *user) wait() time.Duration {
	if u.chance(0.3) {
		return 0
	}
	return u.upTo(u.s.plan.Clients.Wait)
}

func poolID(n int) entry.Hash { return numbered(0x706f6f6c, uint64(n)) }

// nameID is the pool of a name: a lock and a semaphore of one name are one.
func nameID(dialect, name string) entry.Hash { return entry.HashOf("named", dialect+"/"+name) }

// leaseOf derives the lease of a session's token from the token's nonce, as the
// library does.
func leaseOf(session, nonce entry.Hash) (h entry.Hash) {
	for i := range h {
		h[i] = session[i] ^ nonce[len(h)-1-i] ^ 0x5a
	}
	return h
}
