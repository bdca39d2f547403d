package rules_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// simulation is a few peers on one stream, in one pool. Everything that happens,
// and in which order, is drawn from the seed.
type simulation struct {
	rng         *rand.Rand
	stream      *stream
	truth       *naive
	at          map[uint64]instant // what was so when a claim was written
	granted     map[uint64]entry.Hash
	peers       []*peer
	blind       bool // the peers never learn that they skip anything
	written     bool // barriers are written, as on a replicated stream
	incarnation uint64
	leases      int
	draining    bool
	names       *simNames // nil: the pool is a registered one
	whole       bool      // the peers are given everything, however late
	counts
	wrong []string
}

// simKind is what a simulation is like.
type simKind struct {
	blind bool // the peers never learn that they skip anything
	named bool // the pool is a named one
	whole bool // the peers skip nothing
}

// instant is the pool at one revision.
type instant struct {
	count int
	live  []uint64 // by fence
	held  []uint64 // the same, those under other terms included
}

// counts are what is told of many runs.
type counts struct {
	runs, writes, applied, skipped, claims, grants, opened, voids, lost, barriers int
	readings, known, overIssued, unfair, disagreed, stuck                         int
	refused, stale, ill, again                                                    int
}

func (c *counts) add(o counts) {
	c.runs += o.runs
	c.writes += o.writes
	c.applied += o.applied
	c.skipped += o.skipped
	c.claims += o.claims
	c.grants += o.grants
	c.opened += o.opened
	c.voids += o.voids
	c.lost += o.lost
	c.barriers += o.barriers
	c.readings += o.readings
	c.known += o.known
	c.overIssued += o.overIssued
	c.unfair += o.unfair
	c.disagreed += o.disagreed
	c.stuck += o.stuck
	c.refused += o.refused
	c.stale += o.stale
	c.ill += o.ill
	c.again += o.again
}

func (c counts) String() string {
	return fmt.Sprintf("%d runs, %d writes, %d applied, %d skipped; %d claims, %d granted, %d void, %d lost, %d left open, %d barriers; "+
		"%d readings, %d known; %d over-issues, %d other wrong grants, %d disagreements, %d stuck; "+
		"%d refused for their terms, %d wrongly; %d tickets came again; %d leases taken for stale", c.runs, c.writes, c.applied, c.skipped, c.claims, c.grants, c.voids,
		c.lost, c.opened, c.barriers, c.readings, c.known, c.overIssued, c.unfair, c.disagreed, c.stuck, c.refused, c.ill, c.again, c.stale)
}

var simPool = poolID(0)

// simulate runs one simulation to its end.
func simulate(seed uint64, k simKind) *simulation {
	s := &simulation{
		rng: rand.New(rand.NewPCG(seed, 1)), stream: newStream(), truth: newNaive(), at: map[uint64]instant{},
		granted: map[uint64]entry.Hash{}, blind: k.blind, whole: k.whole,
	}
	s.runs = 1
	s.written = s.rng.IntN(2) == 0
	for i := range 2 + s.rng.IntN(3) {
		s.peers = append(s.peers, newPeer(s, i))
	}
	step := s.step
	if k.named {
		s.names = &simNames{at: map[uint64]namedInstant{}, asked: map[uint64]entry.Naming{}}
		step = s.stepNamed
	} else {
		s.resize(s.peers[0])
	}
	for range 300 {
		s.stream.now += 500 * time.Microsecond
		step(s.peers[s.rng.IntN(len(s.peers))])
	}
	s.drain()
	s.checkGrants()
	s.checkRefusals()
	return s
}

func (s *simulation) fail(format string, args ...any) {
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

// step lets one thing happen at, or to, a peer.
func (s *simulation) step(p *peer) {
	switch n := s.rng.IntN(100); {
	case n < 25:
		p.flush()
	case n < 25+p.speed:
		p.send()
	case n < 25+2*p.speed:
		p.read()
	case n < 80:
		p.borrow(s.rng.IntN(3) > 0)
	case n < 90:
		p.giveBack()
	case n < 94:
		p.renew()
	case n < 98:
		s.resize(p)
	case n < 99:
		p.delete()
	default:
		p.endPresence(s.peers[s.rng.IntN(len(s.peers))])
	}
}

// resize registers the pool, or changes its count.
func (s *simulation) resize(p *peer) {
	s.incarnation++
	p.register(s.rng.IntN(4), s.incarnation)
}

// write is what the leader does with a peer's write.
func (s *simulation) write(e entry.Entry, expected uint64) (revision uint64, ok bool) {
	if e.Key.Kind == entry.Barrier {
		e.Previous = s.stream.revision(e.Key)
		e = s.stream.put(e)
		revision, ok = e.Revision, true
	} else if revision, ok = s.stream.write(e, expected); !ok {
		return revision, false
	}
	e = s.stream.log[revision-1]
	s.writes++
	s.truth.apply(e, s.stream.instant(), 0)
	if e.Key.Kind == entry.Config {
		s.at[revision] = s.now()
	}
	if e.Key.Kind == entry.Slot && valid(e) && e.Slot.Fence == 0 {
		s.claims++
		s.at[revision] = s.now()
	}
	s.noteTerms(e)
	return revision, true
}

func (s *simulation) now() instant {
	at := instant{count: s.truth.config(simPool).Count}
	for _, e := range s.truth.live(simPool) {
		at.live = append(at.live, fenceOf(e))
	}
	for _, e := range s.truth.slots(simPool) {
		if s.truth.owned(e) {
			at.held = append(at.held, fenceOf(e))
		}
	}
	return at
}

// grant is called when a peer tells a client that it has a lease.
func (s *simulation) grant(fence uint64, lease entry.Hash) {
	s.grants++
	s.granted[fence] = lease
}

// checkGrants looks at the world at the revision of each claim that came to be a
// lease.
func (s *simulation) checkGrants() {
	for fence := range s.granted {
		at, held := s.at[fence], 0
		for _, other := range at.live {
			if _, granted := s.granted[other]; granted {
				held++
			}
		}
		if held > at.count || !slices.Contains(at.live, fence) {
			s.overIssued++
			s.fail("%d: %d leases of %d slots", fence, held, at.count)
		} else if s.truth.verdict[fence] != rules.Good {
			s.unfair++
			s.fail("%d: granted, and was not the lowest free position for the first in line", fence)
		}
		s.checkOneTerms(fence)
	}
}

// agree holds a peer's verdicts against the true ones. The others take a claim
// that is lost for good or void later on, when its own peer has decided. And a view
// that does not know that a ticket of a named pool is void takes a claim for void
// that comes after it under other terms; never the other way round.
func (s *simulation) agree(w *rules.World) {
	p := w.Pool(simPool)
	if !w.Exact() || p == nil || s.draining || s.blind {
		return
	}
	s.agreeOnTerms(w, p)
	p.Slots(func(slot *rules.Slot) bool {
		got, want := slot.Verdict(), s.truth.verdict[slot.Revision]
		careful := got == rules.Lost || got == rules.Void && s.names != nil && !s.whole
		if slot.Value.Fence == 0 && got != want && !careful {
			s.disagreed++
			s.fail("%d: a peer's verdict is %d at %d, the true one is %d", slot.Revision, got, w.Revision, want)
		}
		return true
	})
}

// reading is what a peer took down of the pool when its configuration changed.
type reading struct {
	revision uint64
	taken    *rules.Reading
}

// compare holds the readings that can be known now against the truth.
func (s *simulation) compare(p *peer) {
	if !p.world.Exact() || s.blind {
		return
	}
	for _, r := range p.readings {
		got, known := r.taken.InUse()
		if want := len(s.at[r.revision].live); known && got != want {
			s.disagreed++
			s.fail("%d: read as %d leases, there were %d", r.revision, got, want)
		}
		s.readings++
		if known {
			s.known++
		}
	}
	p.readings = nil
}

// drain ends it all: everybody catches up, leases are given back, and in the end
// nobody may be left waiting.
func (s *simulation) drain() {
	for range 60 {
		if !s.rest() {
			s.stuck++
			s.fail("the peers do not come to rest")
			return
		}
		// From here on time passes. A void claim whose withdrawal had been held up
		// for a second would be taken for a lease; so nothing is held up any more.
		s.draining = true
		s.stream.now += 1100 * time.Millisecond
		if s.names == nil && s.truth.config(simPool).Count == 0 {
			s.incarnation++
			s.peers[0].register(2, s.incarnation)
		}
		busy := 0
		for _, p := range s.peers {
			p.world.Settle(s.stream.instant())
			p.giveBackAll()
			p.sweepStrays()
			p.advance()
			busy += len(p.borrows)
		}
		if busy == 0 && s.atRest() {
			return
		}
	}
	s.stuck++
	s.fail("somebody waits for ever")
}

// rest lets everything happen that is under way.
func (s *simulation) rest() bool {
	for range 2000 {
		did := false
		for _, p := range s.peers {
			did = p.settle() || did
		}
		if !did {
			return true
		}
	}
	return false
}

func (s *simulation) lease() entry.Hash { s.leases++; return leaseID(s.leases) }
