package sim

import (
	"math/rand/v2"
	"time"
)

// situations are mixes of clients and faults in which a rule matters often that a
// mix drawn at random seldom meets. Half of the seeds are put into one of them.
var situations = []func(*rand.Rand, *Plan){
	administered, together, underOtherTerms, viewsLate, deadInLine, leaderless, tailsLost, waitedOut,
}

// latenesses are situations of views that are behind. A tenth of the seeds are put into
// one of them.
var latenesses = []func(*rand.Rand, *Plan){configurationsSkipped, linesUnseen}

// crowd is many clients of one kind, who are in a hurry.
func crowd(r *rand.Rand, p *Plan) {
	p.Nodes, p.Sole, p.Caps = 2+r.IntN(4), false, CapPlan{}
	p.Length = between(r, 20*time.Second, time.Minute)
	c := &p.Clients
	c.Pool, c.Session, c.Owned, c.Pools, c.Names, c.Owneds = 0, 0, 0, 1, 1, 1
	c.Administer, c.Mismatch, c.Once = 0, 0, 0
	c.TTL = between(r, 2*time.Second, 6*time.Second)
	c.Wait = between(r, time.Second, 8*time.Second)
	c.Think = between(r, 50*time.Millisecond, 400*time.Millisecond)
}

// near is a network without delays worth the name, which loses nothing.
func near(p *Plan) {
	p.Net = NetPlan{Uplink: 300 * time.Microsecond, Ack: 300 * time.Microsecond, Watch: 500 * time.Microsecond}
}

// only leaves no fault but those given, as often as that in a minute.
func only(p *Plan, perMinute float64, kinds ...fault) {
	p.Faults = [faults]float64{}
	for _, f := range kinds {
		if f.fits(p) {
			p.Faults[f] = perMinute
		}
	}
}

// administered is a pool whose count changes, and that is deleted and registered
// again, while many borrow from it and some views lag.
func administered(r *rand.Rand, p *Plan) {
	crowd(r, p)
	c := &p.Clients
	c.Pool, c.Count, c.Administer = 6+r.IntN(8), 2+r.IntN(5), 0.5+r.Float64()/2
	c.Wait = min(c.Wait, 2*time.Second)
	p.Net.Lag = between(r, 50*time.Millisecond, 400*time.Millisecond)
}

// together is clients that act at the same moments, on names that are new to them
// all.
func together(r *rand.Rand, p *Plan) {
	crowd(r, p)
	c := &p.Clients
	c.Session, c.Fresh, c.Names = 6+r.IntN(6), 0.3+r.Float64()/2, 1+r.IntN(2)
	c.Together = between(r, 200*time.Millisecond, 2*time.Second)
	p.Net.Uplink = between(r, 500*time.Microsecond, 20*time.Millisecond)
}

// underOtherTerms is a name that is asked for under changing terms: it is closed
// and opened again all the time.
func underOtherTerms(r *rand.Rand, p *Plan) {
	crowd(r, p)
	c := &p.Clients
	c.Session, c.Mismatch = 4+r.IntN(8), 0.3+r.Float64()*0.4
	c.Wait = min(c.Wait, 2*time.Second)
	if r.IntN(2) == 0 {
		c.Together = between(r, 100*time.Millisecond, time.Second)
	}
	p.Net.Uplink = between(r, 500*time.Microsecond, 20*time.Millisecond)
	p.Net.Lag = between(r, 10*time.Millisecond, 400*time.Millisecond)
}

// viewsLate is views that are behind for seconds, over and over.
func viewsLate(r *rand.Rand, p *Plan) {
	crowd(r, p)
	c := &p.Clients
	c.Pool, c.Session, c.Count = 4+r.IntN(6), r.IntN(5), 2+r.IntN(4)
	c.Idle = between(r, time.Second, 4*time.Second)
	c.Administer, c.Think = 0.5+r.Float64()/2, between(r, 100*time.Millisecond, 500*time.Millisecond)
	near(p)
	only(p, 6+6*r.Float64(), slowWatch)
}

// configurationsSkipped is a pool that is deleted and registered again so often that a
// late view skips the configuration under which it sees a slot taken.
func configurationsSkipped(r *rand.Rand, p *Plan) {
	crowd(r, p)
	c := &p.Clients
	c.Pool, c.Count, c.Administer = 6+r.IntN(5), 3+r.IntN(3), 0.9
	c.Think = between(r, 50*time.Millisecond, 200*time.Millisecond)
	near(p)
	p.Net.Lag = between(r, 100*time.Millisecond, 400*time.Millisecond)
	only(p, 4+6*r.Float64(), slowWatch)
}

// linesUnseen is a pool with as many slots as are asked for, while views are some time
// behind: a peer that sees a slot free may not see yet who has come to stand in line
// for it at a peer that sees it taken.
func linesUnseen(r *rand.Rand, p *Plan) {
	crowd(r, p)
	p.Nodes, p.Length = 5, between(r, 2*time.Minute, 4*time.Minute)
	c := &p.Clients
	c.Count = 6 + r.IntN(3)
	c.Pool = c.Count + 2 + r.IntN(3)
	c.Wait = between(r, 3*time.Second, 8*time.Second)
	c.Think = between(r, 150*time.Millisecond, 400*time.Millisecond)
	near(p)
	p.Net.Lag = between(r, 200*time.Millisecond, 390*time.Millisecond)
	only(p, 0)
}

// deadInLine is peers that die, or stand still, while what they wait for comes
// free.
func deadInLine(r *rand.Rand, p *Plan) {
	crowd(r, p)
	p.Nodes = 3 + r.IntN(3)
	c := &p.Clients
	c.Pool, c.Count = 6+r.IntN(8), 1+r.IntN(2)
	c.Wait = between(r, 5*time.Second, 15*time.Second)
	near(p)
	only(p, 1+2*r.Float64(), killPeer, pausePeer)
}

// leaderless is short-lived sessions of a stream that is without a leader for
// longer than they live.
func leaderless(r *rand.Rand, p *Plan) {
	crowd(r, p)
	p.Nodes, p.Length = 2+r.IntN(4), p.Length+20*time.Second
	c := &p.Clients
	c.Session, c.Idle, c.Names = 4+r.IntN(6), between(r, time.Second, 4*time.Second), 2
	c.Think = between(r, 100*time.Millisecond, time.Second)
	near(p)
	only(p, 1+2*r.Float64(), leaderGap, killServer)
}

// waitedOut is short-lived sessions that wait for longer than they live, and are kept
// alive by nothing but that.
func waitedOut(r *rand.Rand, p *Plan) {
	crowd(r, p)
	c := &p.Clients
	c.Session, c.Idle, c.Quiet = 4+r.IntN(6), between(r, time.Second, 3*time.Second), 0.5+r.Float64()/2
	c.Wait = between(r, 5*time.Second, 15*time.Second)
	near(p)
	only(p, 0)
}

// tailsLost is a busy stream that loses its last writes: others take their numbers
// before every view has noticed.
func tailsLost(r *rand.Rand, p *Plan) {
	crowd(r, p)
	c := &p.Clients
	c.Pool, c.Session, c.Count = 8+r.IntN(8), r.IntN(4), 1+r.IntN(6)
	c.Think = between(r, 20*time.Millisecond, 100*time.Millisecond)
	c.Wait = min(c.Wait, time.Second)
	near(p)
	only(p, 2+2*r.Float64(), loseTail)
}
