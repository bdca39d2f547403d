package sim

import (
	"math/rand/v2"
	"time"
)

// situations are plans in which a rule matters that a random plan rarely exercises.
// Half of the seeds use one of them.
var situations = []func(*rand.Rand, *Plan){
	changingPools, simultaneous, changingTerms, lateViews, deadPeersInLine, sessionsWithoutLeader, lostTails, waitsOutliveSessions,
}

// lateViewSituations are situations in which views are late. A tenth of the seeds use
// one of them.
var lateViewSituations = []func(*rand.Rand, *Plan){skippedConfigurations, unseenLines}

// rareSituations are situations that need several faults or writes at one moment. A tenth of
// the seeds use one of them.
var rareSituations = []func(*rand.Rand, *Plan){loadsAfterSteps, slowWaits, claimsOutlivePresences, longWaits}

// prepareBusy changes the plan to short runs with frequent, short requests. The caller
// adds clients of the kinds that it needs.
func prepareBusy(r *rand.Rand, p *Plan) {
	p.Nodes, p.Sole, p.Caps = 2+r.IntN(4), false, CapPlan{}
	p.Length = between(r, 20*time.Second, time.Minute)
	c := &p.Clients
	c.Pool, c.Session, c.Owned, c.Pools, c.Names, c.OwnedNames = 0, 0, 0, 1, 1, 1
	c.Administer, c.Mismatch, c.Once = 0, 0, 0
	c.TTL = between(r, 2*time.Second, 6*time.Second)
	c.Wait = between(r, time.Second, 8*time.Second)
	c.Think = between(r, 50*time.Millisecond, 400*time.Millisecond)
}

func fastNetwork(p *Plan) {
	p.Net = NetPlan{Uplink: 300 * time.Microsecond, Ack: 300 * time.Microsecond, Feed: 500 * time.Microsecond}
}

func onlyFaults(p *Plan, perMinute float64, kinds ...fault) {
	p.Faults = [faults]float64{}
	for _, f := range kinds {
		if f.fits(p) {
			p.Faults[f] = perMinute
		}
	}
}

// changingPools has a pool that is resized, deleted and registered again while many
// clients borrow from it and some views lag.
func changingPools(r *rand.Rand, p *Plan) {
	prepareBusy(r, p)
	c := &p.Clients
	c.Pool, c.Count, c.Administer = 6+r.IntN(8), 2+r.IntN(5), 0.5+r.Float64()/2
	c.Wait = min(c.Wait, 2*time.Second)
	p.Net.Lag = between(r, 50*time.Millisecond, 400*time.Millisecond)
}

// simultaneous has clients that act at the same moments, on names that are new to all
// of them.
func simultaneous(r *rand.Rand, p *Plan) {
	prepareBusy(r, p)
	c := &p.Clients
	c.Session, c.Fresh, c.Names = 6+r.IntN(6), 0.3+r.Float64()/2, 1+r.IntN(2)
	c.Together = between(r, 200*time.Millisecond, 2*time.Second)
	p.Net.Uplink = between(r, 500*time.Microsecond, 20*time.Millisecond)
}

// changingTerms has clients that ask for one name under changing terms, so that the
// name is closed and opened all the time.
func changingTerms(r *rand.Rand, p *Plan) {
	prepareBusy(r, p)
	c := &p.Clients
	c.Session, c.Mismatch = 4+r.IntN(8), 0.3+r.Float64()*0.4
	c.Wait = min(c.Wait, 2*time.Second)
	if r.IntN(2) == 0 {
		c.Together = between(r, 100*time.Millisecond, time.Second)
	}
	p.Net.Uplink = between(r, 500*time.Microsecond, 20*time.Millisecond)
	p.Net.Lag = between(r, 10*time.Millisecond, 400*time.Millisecond)
}

// lateViews has views that are repeatedly late by seconds.
func lateViews(r *rand.Rand, p *Plan) {
	prepareBusy(r, p)
	c := &p.Clients
	c.Pool, c.Session, c.Count = 4+r.IntN(6), r.IntN(5), 2+r.IntN(4)
	c.Idle = between(r, time.Second, 4*time.Second)
	c.Administer, c.Think = 0.5+r.Float64()/2, between(r, 100*time.Millisecond, 500*time.Millisecond)
	fastNetwork(p)
	onlyFaults(p, 6+6*r.Float64(), slowFeed)
}

// skippedConfigurations has a pool that is deleted and registered again so often that a
// late view skips the configuration under which a slot was taken.
func skippedConfigurations(r *rand.Rand, p *Plan) {
	prepareBusy(r, p)
	c := &p.Clients
	c.Pool, c.Count, c.Administer = 6+r.IntN(5), 3+r.IntN(3), 0.9
	c.Think = between(r, 50*time.Millisecond, 200*time.Millisecond)
	fastNetwork(p)
	p.Net.Lag = between(r, 100*time.Millisecond, 400*time.Millisecond)
	onlyFaults(p, 4+6*r.Float64(), slowFeed)
}

// unseenLines has a pool with about as many slots as clients, and lagging views. A peer
// that sees a free slot may not see yet the tickets of a peer that sees the slot taken.
func unseenLines(r *rand.Rand, p *Plan) {
	prepareBusy(r, p)
	p.Nodes, p.Length = 5, between(r, 2*time.Minute, 4*time.Minute)
	c := &p.Clients
	c.Count = 6 + r.IntN(3)
	c.Pool = c.Count + 2 + r.IntN(3)
	c.Wait = between(r, 3*time.Second, 8*time.Second)
	c.Think = between(r, 150*time.Millisecond, 400*time.Millisecond)
	fastNetwork(p)
	p.Net.Lag = between(r, 200*time.Millisecond, 390*time.Millisecond)
	onlyFaults(p, 0)
}

func deadPeersInLine(r *rand.Rand, p *Plan) {
	prepareBusy(r, p)
	p.Nodes = 3 + r.IntN(3)
	c := &p.Clients
	c.Pool, c.Count = 6+r.IntN(8), 1+r.IntN(2)
	c.Wait = between(r, 5*time.Second, 15*time.Second)
	fastNetwork(p)
	onlyFaults(p, 1+2*r.Float64(), killPeer, pausePeer)
}

// idlePools makes any plan one whose pools are unregistered when they are idle, with
// borrowers that often come back at that moment.
func idlePools(r *rand.Rand, p *Plan) {
	p.PoolIdle = between(r, time.Second, 10*time.Second)
	c := &p.Clients
	c.Pool = max(c.Pool, 2+r.IntN(4))
	switch r.IntN(3) {
	case 0:
		c.Think = between(r, p.PoolIdle/2, 2*p.PoolIdle)
		c.Pool = min(c.Pool, 1+c.Pools)
	case 1: // at the very moment
		c.Think, c.Together = p.PoolIdle, p.PoolIdle
		c.Pool = min(c.Pool, 1+c.Pools)
	}
}

// closingPools has pools that are registered again, or used by a lease that is renewed at
// once, while peers close them. Late views skip the claim of such a lease.
func closingPools(r *rand.Rand, p *Plan) {
	p.Nodes, p.Sole, p.PoolIdle = max(p.Nodes, 3), false, between(r, time.Second, 3*time.Second)
	c := &p.Clients
	c.Pools, c.Pool = 1, 1+r.IntN(3)
	c.Administer, c.AtOnce = 0.3+r.Float64()/2, 0.5+r.Float64()/2
	c.Think, c.Together = p.PoolIdle, p.PoolIdle
	p.Net.Lag = between(r, 50*time.Millisecond, 400*time.Millisecond)
	if r.IntN(2) == 0 {
		p.Faults[slowFeed] = 4 + 6*r.Float64()
	}
}

func sessionsWithoutLeader(r *rand.Rand, p *Plan) {
	prepareBusy(r, p)
	p.Nodes, p.Length = 2+r.IntN(4), p.Length+20*time.Second
	c := &p.Clients
	c.Session, c.Idle, c.Names = 4+r.IntN(6), between(r, time.Second, 4*time.Second), 2
	c.Think = between(r, 100*time.Millisecond, time.Second)
	fastNetwork(p)
	onlyFaults(p, 1+2*r.Float64(), leaderGap, killServer)
}

// waitsOutliveSessions has sessions that are kept alive only by waits that are longer
// than their idle timeout.
func waitsOutliveSessions(r *rand.Rand, p *Plan) {
	prepareBusy(r, p)
	c := &p.Clients
	c.Session, c.Idle, c.Quiet = 4+r.IntN(6), between(r, time.Second, 3*time.Second), 0.5+r.Float64()/2
	c.Wait = between(r, 5*time.Second, 15*time.Second)
	fastNetwork(p)
	onlyFaults(p, 0)
}

// lostTails has a busy stream that loses its last writes. Other writes get the same
// sequence numbers before every peer has noticed.
func lostTails(r *rand.Rand, p *Plan) {
	prepareBusy(r, p)
	c := &p.Clients
	c.Pool, c.Session, c.Count = 8+r.IntN(8), r.IntN(4), 1+r.IntN(6)
	c.Think = between(r, 20*time.Millisecond, 100*time.Millisecond)
	c.Wait = min(c.Wait, time.Second)
	fastNetwork(p)
	onlyFaults(p, 2+2*r.Float64(), loseTail)
}

func feedGaps(r *rand.Rand, p *Plan) {
	prepareBusy(r, p)
	c := &p.Clients
	c.Pool, c.Session, c.Count = 2+r.IntN(8), r.IntN(6), 1+r.IntN(5)
	fastNetwork(p)
	onlyFaults(p, 0)
	p.Flush, p.Feed = FlushPlan{}, FeedPlan{Lose: 0.001 + 0.02*r.Float64()*r.Float64()}
}

// partitions has servers that are cut off and leaders that change, with all that follows.
func partitions(r *rand.Rand, p *Plan) {
	prepareBusy(r, p)
	p.Replicas, p.Length = 3, p.Length+20*time.Second
	c := &p.Clients
	c.Pool, c.Session, c.Count = 2+r.IntN(8), r.IntN(8), 1+r.IntN(4)
	c.Think = between(r, 20*time.Millisecond, 200*time.Millisecond)
	fastNetwork(p)
	onlyFaults(p, 1+2*r.Float64(), isolateServer, stepDown, changeLeader)
	p.Flush = FlushPlan{}
	p.Feed = FeedPlan{Unpublished: r.Float64(), Repeated: r.Float64(), TwoAnswers: r.Float64(), Behind: r.Float64() / 2}
}

// loadsAfterSteps has peers that load their views after the leader's clock was stepped, while
// leases are lent that last long.
func loadsAfterSteps(r *rand.Rand, p *Plan) {
	prepareBusy(r, p)
	p.Length, p.Clock = between(r, time.Minute, 2*time.Minute), maxGuardedClock
	c := &p.Clients
	c.Pool, c.Session, c.Count = 3+r.IntN(4), 2+r.IntN(4), 2+r.IntN(4)
	c.TTL, c.Idle, c.Think = between(r, 20*time.Second, 2*time.Minute), 15*time.Second, between(r, time.Second, 8*time.Second)
	fastNetwork(p)
	onlyFaults(p, 2+3*r.Float64(), stepClock, killPeer)
	p.Flush, p.Feed = FlushPlan{}, FeedPlan{Lose: 0.01 * r.Float64()}
}

// slowWaits has sessions that wait with an enqueued ticket for a short lease, while writes
// are late and purges of tickets are lost: the lease may end before its ticket has left the
// line, and several peers may claim for one ticket.
func slowWaits(r *rand.Rand, p *Plan) {
	prepareBusy(r, p)
	p.Nodes, p.Clock = 3+r.IntN(3), maxGuardedClock
	c := &p.Clients
	c.Session, c.Idle, c.Names = 8+r.IntN(6), between(r, 8*time.Second, 15*time.Second), 2
	c.TTL, c.Wait = between(r, 1100*time.Millisecond, 2500*time.Millisecond), between(r, 5*time.Second, 15*time.Second)
	c.Think = between(r, 20*time.Millisecond, 200*time.Millisecond)
	fastNetwork(p)
	p.Net.Uplink, p.Net.LoseLeave = between(r, time.Millisecond, 200*time.Millisecond), 0.95*r.Float64()
	p.Net.Spikes = 0.2 * r.Float64()
	onlyFaults(p, 4+8*r.Float64(), stallLink, slowFeed, stopFeed, cutLink)
	p.Flush, p.Feed = FlushPlan{}, FeedPlan{}
}

// claimsOutlivePresences has writes that are delayed for about as long as a presence lives, and
// leases that last so long that a claim without a caller is still there when all is quiet.
func claimsOutlivePresences(r *rand.Rand, p *Plan) {
	prepareBusy(r, p)
	p.Length = between(r, time.Minute, 2*time.Minute)
	c := &p.Clients
	c.Pool, c.Session, c.Count, c.Names = 3+r.IntN(6), r.IntN(6), 2+r.IntN(5), 2
	c.TTL, c.Idle = between(r, 30*time.Second, 2*time.Minute), 15*time.Second
	fastNetwork(p)
	onlyFaults(p, 1+2*r.Float64(), longStall)
	p.Flush, p.Feed = FlushPlan{}, FeedPlan{}
}

// longWaits has borrows with request keys that wait for longer than an entry of the line lives
// without a refresh, while their peers are replaced or lose entries.
func longWaits(r *rand.Rand, p *Plan) {
	prepareBusy(r, p)
	p.Nodes, p.Length = 2+r.IntN(2), between(r, 30*time.Minute, time.Hour)
	c := &p.Clients
	c.Pool, c.Count, c.Keyed = 4+r.IntN(3), 1, 0.5+r.Float64()/2
	c.TTL, c.Wait, c.Think = 30*time.Minute, 50*time.Minute, between(r, 2*time.Minute, 6*time.Minute)
	p.PoolIdle, p.Grace = 0, between(r, time.Second, 10*time.Second)
	fastNetwork(p)
	onlyFaults(p, 0.1*r.Float64(), killPeer, closePeer, loseBurst, cutLink)
	p.Flush, p.Feed = FlushPlan{}, FeedPlan{}
}
