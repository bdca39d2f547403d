package sim

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// Plan holds the parameters of a run. They determine the run completely.
type Plan struct {
	Seed     uint64
	Length   time.Duration // how long clients start new requests and faults occur
	Nodes    int           // number of peers, 1 to 5
	Replicas int           // replicas of the stream, 1 or 3
	Sole     bool          // the only peer is started with peer.Config.Sole
	Net      NetPlan
	Feed     FeedPlan
	Clients  ClientPlan
	Caps     CapPlan
	Flush    FlushPlan
	PoolIdle time.Duration   // after which idle pools are unregistered; 0: never
	Grace    time.Duration   // peer.Config.ResumeGrace
	Traps    bool            // whether the stream has the traps of a real server
	Clock    time.Duration   // maximal difference between a leader's clock and the true time
	Outages  float64         // share of cuts, gaps and deaths that last from 1 s to 5 minutes: see outageTime
	Faults   [faults]float64 // episodes per minute, for each fault
}

type NetPlan struct {
	Uplink, Ack, Feed time.Duration // typical delays
	Spikes            float64       // share of delays that are up to 20 times as long
	Lag               time.Duration // maximal additional delay of one feed in three
	LoseWrite         float64       // share of writes that are lost
	LoseAck           float64       // share of acknowledgements that are lost
	LateAck           float64       // share of acknowledgements that take 0.5 to 8 s
	Full              float64       // share of writes that the peer's send queue rejects as full
	Never             float64       // share of writes that the server refuses for good
	LoseLeave         float64       // share of the purges of tickets that are lost
	Unknown           float64       // share of acknowledgements that do not say what became of the write
}

type FeedPlan struct {
	Lose        float64 // share of entries that are lost on their way to one peer
	Unpublished float64 // share of the entries from just before a change of leader that no leader republishes
	Repeated    float64 // share of the changes of leader after which such entries come again, up to 10 s late
	TwoAnswers  float64 // share of writes just after a change of leader that the deposed leader refuses as well
	Buffer      int     // number of entries that a slow peer's shell buffers before it drops them; 0: any number
	Behind      float64 // share of readings that come from a replica that is behind
}

type ClientPlan struct {
	Pool, Session, Owned int           // number of clients of each kind
	Observers            int           // number of clients that only read
	Pools                int           // number of registered pools
	Count                int           // maximal count of a pool
	Names                int           // number of names of locks and semaphores that sessions compete for
	OwnedNames           int           // number of names of owned locks
	TTL                  time.Duration // longest lease
	Wait                 time.Duration // longest wait
	Idle                 time.Duration // longest idle timeout of a session
	Think                time.Duration // typical pause between a client's requests
	Administer           float64       // share of pool changes among an operator's steps
	Mismatch             float64       // share of requests with another limit than usual
	Once                 float64       // share of requests for a name that is used once
	Fresh                float64       // share of requests for a name that all clients use for 3 s
	AtOnce               float64       // share of borrowers that renew as soon as they have a lease
	Quiet                float64       // share of sessions whose clients send no ping while a call waits
	Together             time.Duration // clients act at multiples of this duration; 0: at any time
	Operate              float64       // share of an operator's steps between two changes that look at a pool, end a lease, or take a position out of service
	Keyed                float64       // share of borrows with a request key, which clients repeat
}

// maxGuardedClock is the largest difference between a leader's clock and the true time
// for which rules.Guard keeps the server from expiring a key early. A clock may step
// from one extreme to the other, hence the half.
const maxGuardedClock = rules.Guard/2 - 10*time.Second

// CapPlan holds the caps of the peers' configuration; 0 means no cap.
type CapPlan struct {
	Pools, PoolWaiters, Locks, Waiters, Sessions, SessionsPerOrigin int
	LocksPerSession, LocksPerOrigin, Tombstones                     int
}

func Draw(seed uint64) Plan {
	r := rand.New(rand.NewPCG(seed, 0x706c616e))
	p := Plan{Seed: seed, Nodes: 1 + r.IntN(5), Replicas: 1, Traps: true}
	if r.IntN(2) == 0 {
		p.Replicas = 3
	}
	p.Sole = p.Nodes == 1 && r.IntN(2) == 0
	p.Length = between(r, 20*time.Second, 2*time.Minute)
	if r.IntN(10) == 0 {
		p.Length = between(r, 3*time.Minute, 8*time.Minute)
	}
	if p.Clock = maxGuardedClock; r.IntN(2) == 0 {
		p.Clock = 10 * time.Minute
	}
	p.Net = drawNet(r)
	p.Clients = drawClients(r, p.Length)
	if r.IntN(6) == 0 {
		p.Caps = drawCaps(r, p.Clients)
	}
	if r.IntN(6) != 0 {
		drawFaults(r, &p)
	}
	if r.IntN(2) == 0 {
		situations[r.IntN(len(situations))](r, &p)
	} else if r.IntN(5) == 4 {
		lateViewSituations[r.IntN(len(lateViewSituations))](r, &p)
	}
	if r.IntN(5) == 0 {
		idlePools(r, &p)
	}
	if p.Faults[loseTail] > 0 && r.IntN(2) == 0 {
		p.Faults[rollBack] = p.Faults[loseTail]
	}
	if p.Replicas == 1 && r.IntN(3) == 0 {
		p.Flush.Delay = between(r, time.Millisecond, 3*time.Second)
		if r.IntN(2) == 0 {
			p.Flush.Fails = r.Float64() * 0.1
		}
	}
	drawMore(&p)
	drawObservers(&p)
	drawShares(&p)
	drawRare(&p)
	drawKeys(&p)
	drawOperate(&p)
	drawOutages(&p)
	return p
}

// drawMore draws what the first plans did not have. It has a source of its own, so that
// the rest of a seed's plan stays as it was.
func drawMore(p *Plan) {
	r := rand.New(rand.NewPCG(p.Seed, 0x6d6f7265))
	if r.IntN(12) == 0 {
		p.Caps.Pools, p.Caps.PoolWaiters = 1+r.IntN(max(1, p.Clients.Pools-1)), 1+r.IntN(4)
	}
	for _, rate := range []*float64{&p.Net.Unknown, &p.Net.Never} {
		if r.IntN(10) == 0 && !p.FaultFree() {
			*rate = r.Float64() * r.Float64() * 0.2
		}
	}
	switch r.IntN(16) {
	case 0:
		feedGaps(r, p)
		return
	case 1:
		partitions(r, p)
		return
	}
	if p.FaultFree() {
		return
	}
	drawFeed(r, &p.Feed)
	if p.Replicas == 1 {
		p.Feed.Unpublished, p.Feed.Repeated, p.Feed.TwoAnswers, p.Feed.Behind = 0, 0, 0, 0
	}
	for f := loseBurst; f < faults; f++ {
		if f.fits(p) && r.IntN(6) == 0 {
			p.Faults[f] = 0.3 + 4*r.Float64()*r.Float64()
		}
	}
}

func drawObservers(p *Plan) {
	r := rand.New(rand.NewPCG(p.Seed, 0x6f627376))
	if r.IntN(5) == 0 {
		p.Clients.Observers = 1 + r.IntN(2)
	}
	if p.PoolIdle > 0 && r.IntN(2) == 0 {
		closingPools(r, p)
	}
}

func drawShares(p *Plan) {
	r := rand.New(rand.NewPCG(p.Seed, 0x73686172))
	if r.IntN(8) != 0 {
		return
	}
	if r.IntN(3) != 0 {
		p.Caps.LocksPerSession = 1 + r.IntN(3)
	}
	if r.IntN(3) != 0 {
		p.Caps.LocksPerOrigin = 1 + r.IntN(5)
	}
}

func drawKeys(p *Plan) {
	r := rand.New(rand.NewPCG(p.Seed, 0x6b657973))
	if r.IntN(4) != 0 && (p.PoolIdle == 0 || r.IntN(2) == 0 || p.Clients.Keyed > 0) {
		return
	}
	p.Clients.Keyed = [...]float64{0.2, 0.5, 1}[r.IntN(3)]
	if r.IntN(4) != 0 {
		p.Grace = between(r, 200*time.Millisecond, 10*time.Second)
	}
}

func drawOperate(p *Plan) {
	r := rand.New(rand.NewPCG(p.Seed, 0x6f706572))
	if r.IntN(4) != 0 {
		return
	}
	p.Clients.Operate = 0.2 + 0.7*r.Float64()
}

// drawOutages has outages of every length, and leases that outlive them.
func drawOutages(p *Plan) {
	r := rand.New(rand.NewPCG(p.Seed, 0x6f757467))
	if p.FaultFree() || r.IntN(4) != 0 {
		return
	}
	p.Outages = 0.2 + 0.8*r.Float64()
	for _, f := range []fault{cutLink, leaderGap, killServer, killPeer, stopFeed, loseAcks, deafPeer, rebuildView} {
		if f.fits(p) && r.IntN(3) == 0 {
			p.Faults[f] = max(p.Faults[f], 0.1+r.Float64()*r.Float64())
		}
	}
	p.Length = max(p.Length, between(r, 2*time.Minute, 10*time.Minute))
	c := &p.Clients
	c.Think += p.Length / 400
	if r.IntN(3) > 0 {
		c.TTL, c.Idle = between(r, time.Minute, 20*time.Minute), between(r, time.Second, 5*time.Minute)
	}
}

func drawRare(p *Plan) {
	r := rand.New(rand.NewPCG(p.Seed, 0x72617265))
	if n := r.IntN(10 * len(rareSituations)); n < len(rareSituations) {
		rareSituations[n](r, p)
	}
}

func drawFeed(r *rand.Rand, f *FeedPlan) {
	if r.IntN(4) == 0 {
		f.Lose = r.Float64() * r.Float64() * 0.02
	}
	for _, rate := range []*float64{&f.Unpublished, &f.Repeated, &f.TwoAnswers, &f.Behind} {
		if r.IntN(2) == 0 {
			*rate = r.Float64()
		}
	}
	if r.IntN(2) == 0 {
		f.Buffer = 1 + r.IntN(100)
	}
}

// FaultFree reports whether the plan has no faults. It may have lag.
func (p *Plan) FaultFree() bool {
	n := &p.Net
	return p.Faults == [faults]float64{} && p.Feed == (FeedPlan{}) && n.LoseWrite == 0 && n.LoseLeave == 0 && n.LoseAck == 0 && n.LateAck == 0 && n.Full == 0 && n.Never == 0 && n.Unknown == 0 && p.Flush.Fails == 0
}

func drawNet(r *rand.Rand) NetPlan {
	n := NetPlan{
		Uplink: between(r, 50*time.Microsecond, 2*time.Millisecond),
		Ack:    between(r, 50*time.Microsecond, 2*time.Millisecond),
		Feed:   between(r, 50*time.Microsecond, 5*time.Millisecond),
	}
	switch r.IntN(8) {
	case 0: // long distance
		n.Uplink, n.Ack = between(r, 10*time.Millisecond, 80*time.Millisecond), between(r, 10*time.Millisecond, 80*time.Millisecond)
	case 1:
		n.Ack = between(r, 200*time.Millisecond, 700*time.Millisecond)
	}
	if r.IntN(2) == 0 {
		n.Lag = between(r, 10*time.Millisecond, 400*time.Millisecond)
	}
	if r.IntN(3) == 0 {
		n.Spikes = r.Float64() * 0.05
	}
	return n
}

func drawClients(r *rand.Rand, length time.Duration) ClientPlan {
	c := ClientPlan{
		Pools: 1 + r.IntN(3), Count: 1 + r.IntN(4), Names: 1 + r.IntN(3), OwnedNames: 1 + r.IntN(2),
		TTL: between(r, 2*time.Second, 30*time.Second), Wait: between(r, 500*time.Millisecond, 15*time.Second),
		Idle:  between(r, time.Second, 15*time.Second),
		Think: between(r, 100*time.Millisecond, 3*time.Second) + length/200,
	}
	kinds := 1 + r.IntN(7) // a set of the three kinds of clients
	if kinds&1 != 0 {
		c.Pool = 2 + r.IntN(10)
	}
	if kinds&2 != 0 {
		c.Session = 2 + r.IntN(10)
	}
	if kinds&4 != 0 {
		c.Owned = 2 + r.IntN(5)
	}
	draw := func(most float64) float64 {
		if r.IntN(2) == 0 {
			return r.Float64() * most
		}
		return 0
	}
	c.Administer, c.Mismatch, c.Once = draw(0.1), draw(0.2), draw(0.5)
	return c
}

func drawCaps(r *rand.Rand, c ClientPlan) CapPlan {
	draw := func(most int) int {
		if r.IntN(2) == 0 {
			return 1 + r.IntN(most)
		}
		return 0
	}
	p := CapPlan{Locks: draw(c.Names + c.OwnedNames + 1), Waiters: draw(4), Sessions: draw(c.Session + 1), SessionsPerOrigin: draw(3)}
	p.Tombstones = 15 * p.SessionsPerOrigin
	return p
}

func drawFaults(r *rand.Rand, p *Plan) {
	n := &p.Net
	for _, rate := range []*float64{&n.LoseWrite, &n.LoseAck, &n.LateAck, &n.Full} {
		if r.IntN(4) == 0 {
			*rate = r.Float64() * r.Float64() * 0.2
		}
	}
	for f := range rollBack { // see Draw
		if fault(f).fits(p) && r.IntN(3) == 0 {
			p.Faults[f] = 0.3 + 5*r.Float64()*r.Float64()
			switch {
			case fault(f) == outage:
				p.Faults[f] /= 20
			case fault(f).losesData():
				p.Faults[f] /= 4
			}
		}
	}
}

type random struct{ rng *rand.Rand }

func newRandom(seed, stream uint64) random { return random{rand.New(rand.NewPCG(seed, stream))} }

// chance returns true with the given probability.
func (r random) chance(rate float64) bool { return rate > 0 && r.rng.Float64() < rate }

func (r random) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(r.rng.Int64N(int64(d)))
}

// outageTime draws how long a fault lasts: as usual, or as outages of every length do, evenly over the logarithm.
func (s *Simulation) outageTime(from, to time.Duration) time.Duration {
	if !s.chance(s.plan.Outages) {
		return between(s.rng, from, to)
	}
	s.met.add("trap: outage")
	const shortest, longest = time.Second, 5 * time.Minute
	return time.Duration(float64(shortest) * math.Pow(float64(longest)/float64(shortest), s.rng.Float64()))
}

// between draws a duration, short ones more often than long ones.
func between(r *rand.Rand, from, to time.Duration) time.Duration {
	f := r.Float64()
	return from + time.Duration(f*f*float64(to-from))
}
