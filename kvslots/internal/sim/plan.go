package sim

import (
	"math/rand/v2"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// Plan says what a run is like. A run is a function of its plan.
type Plan struct {
	Seed     uint64
	Length   time.Duration // how long clients begin new things and faults occur
	Nodes    int           // 1 … 5
	Replicas int           // of the stream: 1 or 3
	Sole     bool          // the one peer knows that it is alone
	Net      NetPlan
	Clients  ClientPlan
	Caps     CapPlan
	Traps    bool            // of the stream; without, it is always in time
	Clock    time.Duration   // by how much leaders' clocks differ from the true time at most
	Faults   [faults]float64 // episodes per minute
}

// NetPlan says what the connections between peers and stream are like.
type NetPlan struct {
	Uplink, Ack, Watch time.Duration // typical delays
	Spikes             float64       // share of delays that are up to 20 times as long
	Lag                time.Duration // one watch in three is late by up to that much
	LoseWrite          float64       // share of writes that never arrive
	LoseAck            float64       // share of acknowledgements that never arrive
	LateAck            float64       // share of acknowledgements that take 0.5 … 8 s
	Full               float64       // share of writes that find the FIFO full
}

// ClientPlan says what clients do.
type ClientPlan struct {
	Pool, Session, Owned int           // how many there are
	Pools                int           // registered pools
	Count                int           // most slots of a pool
	Names                int           // hot names of locks and semaphores
	Owneds               int           // names of owned locks
	TTL                  time.Duration // longest lease
	Wait                 time.Duration // longest wait
	Idle                 time.Duration // longest idle timeout of a session
	Think                time.Duration // typical pause of a client
	Administer           float64       // share of a pool client's steps that register or delete
	Mismatch             float64       // share of requests with another limit
	Once                 float64       // share of requests for a name that is used once
	Fresh                float64       // share of requests for the name of this moment, which all clients ask for
	Quiet                float64       // share of sessions that are not pinged while a call of them waits
	Together             time.Duration // clients act at its multiples; 0: at any time
}

// guarded is by how much leaders' clocks may differ from the true time without
// the server ending anything early: a key lives longer than what it stands for by
// the guard, and the step from one extreme to the other must be within that.
const guarded = rules.Guard/2 - 10*time.Second

// CapPlan are the caps of the peers' configuration; 0 is no cap.
type CapPlan struct{ Locks, Waiters, Sessions, SessionsPerOrigin int }

// Draw draws the plan of a seed.
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
	if p.Clock = guarded; r.IntN(2) == 0 {
		p.Clock = 10 * time.Minute
	}
	p.Net = drawNet(r)
	p.Clients = drawClients(r, p.Length)
	if r.IntN(6) == 0 {
		p.Caps = drawCaps(r, p.Clients)
	}
	calm := r.IntN(6) == 0
	if !calm {
		drawFaults(r, &p)
	}
	if r.IntN(2) == 0 {
		situations[r.IntN(len(situations))](r, &p)
	} else if r.IntN(5) == 4 {
		latenesses[r.IntN(len(latenesses))](r, &p)
	}
	return p
}

// Calm reports whether the plan has lag, but no fault.
func (p *Plan) Calm() bool {
	for _, rate := range p.Faults {
		if rate > 0 {
			return false
		}
	}
	return p.Net.LoseWrite == 0 && p.Net.LoseAck == 0 && p.Net.LateAck == 0 && p.Net.Full == 0
}

func drawNet(r *rand.Rand) NetPlan {
	n := NetPlan{
		Uplink: between(r, 50*time.Microsecond, 2*time.Millisecond),
		Ack:    between(r, 50*time.Microsecond, 2*time.Millisecond),
		Watch:  between(r, 50*time.Microsecond, 5*time.Millisecond),
	}
	switch r.IntN(8) {
	case 0: // far away
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
		Pools: 1 + r.IntN(3), Count: 1 + r.IntN(4), Names: 1 + r.IntN(3), Owneds: 1 + r.IntN(2),
		TTL: between(r, 2*time.Second, 30*time.Second), Wait: between(r, 500*time.Millisecond, 15*time.Second),
		Idle:  between(r, time.Second, 15*time.Second),
		Think: between(r, 100*time.Millisecond, 3*time.Second) + length/200,
	}
	kinds := 1 + r.IntN(7) // any of the three kinds
	if kinds&1 != 0 {
		c.Pool = 2 + r.IntN(10)
	}
	if kinds&2 != 0 {
		c.Session = 2 + r.IntN(10)
	}
	if kinds&4 != 0 {
		c.Owned = 2 + r.IntN(5)
	}
	if r.IntN(2) == 0 {
		c.Administer = r.Float64() * 0.1
	}
	if r.IntN(2) == 0 {
		c.Mismatch = r.Float64() * 0.2
	}
	if r.IntN(2) == 0 {
		c.Once = r.Float64() * 0.5
	}
	return c
}

func drawCaps(r *rand.Rand, c ClientPlan) CapPlan {
	caps := CapPlan{}
	if r.IntN(2) == 0 {
		caps.Locks = 1 + r.IntN(c.Names+c.Owneds+1)
	}
	if r.IntN(2) == 0 {
		caps.Waiters = 1 + r.IntN(4)
	}
	if r.IntN(2) == 0 {
		caps.Sessions = 1 + r.IntN(c.Session+1)
	}
	if r.IntN(2) == 0 {
		caps.SessionsPerOrigin = 1 + r.IntN(3)
	}
	return caps
}

func drawFaults(r *rand.Rand, p *Plan) {
	n := &p.Net
	for _, rate := range []*float64{&n.LoseWrite, &n.LoseAck, &n.LateAck, &n.Full} {
		if r.IntN(4) == 0 {
			*rate = r.Float64() * r.Float64() * 0.2
		}
	}
	for f := range p.Faults {
		if fault(f).fits(p) && r.IntN(3) == 0 {
			p.Faults[f] = 0.3 + 5*r.Float64()*r.Float64()
			switch {
			case fault(f) == outage:
				p.Faults[f] /= 20
			case fault(f).grave():
				p.Faults[f] /= 4
			}
		}
	}
}

// between draws a duration, short ones more often.
func between(r *rand.Rand, from, to time.Duration) time.Duration {
	f := r.Float64()
	return from + time.Duration(f*f*float64(to-from))
}
