package sim

import "time"

type fault int

const (
	cutLink       fault = iota // a peer's connection breaks
	stallLink                  // a peer's writes are delayed
	pausePeer                  // a peer does not run
	suspendPeer                // a peer does not run, and its timers stand still
	killPeer                   // a peer dies and is restarted
	closePeer                  // a peer closes and is restarted
	loseReading                // a consumer disappears without notice
	refuseReading              // no consumer can be created
	slowFeed                   // a peer is slow: what comes to it is late by seconds
	changeLeader               // another leader is elected, with another clock
	leaderGap                  // the stream has no leader
	stepClock                  // the leader's clock steps
	killServer                 // the server is killed (kill -9) and restarted
	loseTail                   // a power failure loses the last writes
	purgeStream                // an operator purges the stream
	deleteStream               // an operator deletes the stream, and a gateway creates it
	compactBlocks              // the server compacts its block files
	outage                     // all peers die, until about the time when the server expires their keys
	rollBack                   // the last writes are lost behind connections that live on
	loseBurst                  // the feed of a peer lacks some entries
	stopFeed                   // the feed of a peer stands still, while acknowledgements go on
	loseAcks                   // acknowledgements to a peer are lost, while its feed goes on
	stepDown                   // the leader steps down
	isolateServer              // a server is cut off from the others, which may be the leader
	longStall                  // a peer's writes are delayed for about as long as a presence lives
	rebuildView                // a peer takes the stream for another one
	deafPeer                   // what comes to a peer is lost, while its writes go on
	faults
)

var faultNames = [faults]string{
	"cut-link", "stall-link", "pause-peer", "suspend-peer", "kill-peer", "close-peer", "lose-reading", "refuse-reading", "slow-feed",
	"change-leader", "leader-gap", "step-clock", "kill-server", "lose-tail", "purge-stream", "delete-stream", "compact-blocks", "outage", "roll-back",
	"lose-burst", "stop-feed", "lose-acks", "step-down", "isolate-server", "long-stall", "rebuild-view", "deaf-peer",
}

func (f fault) String() string { return faultNames[f] }

func (f fault) fits(p *Plan) bool {
	switch f {
	case changeLeader, stepDown, isolateServer:
		return p.Replicas > 1
	case killServer:
		return p.Replicas == 1
	}
	return true
}

func (f fault) losesData() bool {
	return f == loseTail || f == purgeStream || f == deleteStream || f == rollBack
}

func (s *Simulation) scheduleFaults() {
	for f, rate := range s.plan.Faults {
		if rate > 0 {
			s.nextFault(fault(f), rate)
		}
	}
}

func (s *Simulation) nextFault(f fault, perMinute float64) {
	d := time.Duration(s.rng.ExpFloat64() / perMinute * float64(time.Minute))
	at := s.now.Add(d + 10*time.Millisecond)
	if at >= start.Add(s.plan.Length) {
		return
	}
	s.at(at, func() {
		if s.ending {
			return
		}
		s.met.add("fault: " + f.String())
		if s.trace != nil {
			s.tracef("FAULT", "%s", f)
		}
		episodes[f](s)
		s.nextFault(f, perMinute)
	})
}

// episodes are the functions that begin an episode. Each episode ends by itself.
var episodes [faults]func(*Simulation)

func init() {
	episodes = [faults]func(*Simulation){
		cutLink:     (*Simulation).cutLink,
		stallLink:   func(s *Simulation) { s.stallLink(100*time.Millisecond, 9*time.Second) },
		pausePeer:   func(s *Simulation) { s.pausePeer(false) },
		suspendPeer: func(s *Simulation) { s.pausePeer(true) },
		killPeer:    (*Simulation).killPeer, closePeer: (*Simulation).closePeer,
		loseReading: (*Simulation).loseReading, refuseReading: (*Simulation).refuseReading, slowFeed: (*Simulation).slowFeed,
		changeLeader: (*Simulation).changeLeader, leaderGap: (*Simulation).leaderGap, stepClock: (*Simulation).stepClock,
		killServer: (*Simulation).killServer, loseTail: (*Simulation).loseTail,
		purgeStream: (*Simulation).purgeStream, deleteStream: (*Simulation).deleteStream,
		compactBlocks: (*Simulation).compactBlocks, outage: (*Simulation).outage, rollBack: (*Simulation).rollBack,
		loseBurst: (*Simulation).loseBurst, stopFeed: (*Simulation).stopFeed, loseAcks: (*Simulation).loseAcks,
		stepDown: (*Simulation).stepDown, isolateServer: (*Simulation).isolateServer,
		longStall:   func(s *Simulation) { s.stallLink(6*time.Second, 20*time.Second) },
		rebuildView: (*Simulation).rebuildView, deafPeer: (*Simulation).deafPeer,
	}
}

// episode ends a fault after d. Until then, and for some time after, no progress is
// demanded.
func (s *Simulation) episode(d time.Duration, end func()) {
	s.faultState.begin()
	s.after(d, func() {
		end()
		s.faultState.end(s.now)
	})
}

// peerEpisode is episode for a fault that kills or pauses a single peer.
func (s *Simulation) peerEpisode(d time.Duration, end func()) {
	s.faultState.beginPeerFault()
	s.after(d, func() {
		end()
		s.faultState.endPeerFault(s.now)
	})
}

func (s *Simulation) anyNode() *node { return s.nodes[s.rng.IntN(len(s.nodes))] }

func (s *Simulation) cutLink() {
	n := s.anyNode()
	if n.peer == nil || !n.link.up {
		return
	}
	n.link.cut(s.chance(0.5))
	s.episode(s.outageTime(20*time.Millisecond, 12*time.Second), n.alive(n.link.reconnect))
}

func (s *Simulation) stallLink(from, to time.Duration) {
	l := s.anyNode().link
	d := between(s.rng, from, to)
	l.stalledUntil = max(l.stalledUntil, s.now.Add(d))
	s.episode(d, func() {})
}

func (s *Simulation) pausePeer(suspended bool) {
	n := s.anyNode()
	if n.peer == nil || n.pauses > 0 {
		return
	}
	d := between(s.rng, 100*time.Millisecond, 20*time.Second)
	if s.chance(0.05) {
		d = between(s.rng, 90*time.Second, 4*time.Minute) // longer than a marker lives
	}
	n.pause(d, suspended)
	s.peerEpisode(d+time.Millisecond, func() {})
}

func (s *Simulation) killPeer() {
	n := s.anyNode()
	n.kill()
	s.peerEpisode(s.outageTime(10*time.Millisecond, 20*time.Second), n.start)
}

func (s *Simulation) closePeer() {
	n := s.anyNode()
	n.close()
	s.peerEpisode(between(s.rng, 6*time.Second, 20*time.Second), n.start)
}

func (s *Simulation) loseReading() {
	r := s.anyNode().reading
	if r.consumer == nil {
		return
	}
	r.vanish()
	s.episode(silenceTimeout, func() {})
}

func (s *Simulation) refuseReading() {
	s.server.readingFaults++
	s.episode(s.outageTime(100*time.Millisecond, 10*time.Second), func() { s.server.readingFaults-- })
}

func (s *Simulation) drawClock() time.Duration {
	most := s.plan.Clock
	switch s.rng.IntN(4) {
	case 0:
		return 0
	case 1:
		most = min(most, time.Second)
	}
	return s.upTo(2*most) - most
}

func (s *Simulation) changeLeader() {
	v := s.server
	if v.stream.Leaderless() || v.partition != nil {
		return
	}
	v.handOver(func() {
		died := s.chance(0.5)
		v.stream.BeginGap(v.wall())
		ahead, from, last := s.drawClock(), s.now, v.stream.Info().Last
		s.episode(between(s.rng, 10*time.Millisecond, 6*time.Second), func() {
			v.stream.EndGap(v.wall())
			v.setClock(ahead)
			v.stream.ChangeLeader(ahead, died, v.wall())
			v.depose(last)
			v.resumeReadings()
			v.leaderBack(from)
		})
		v.silenceReadings()
	})
}

func (s *Simulation) leaderGap() {
	v := s.server
	if v.stream.Leaderless() {
		return
	}
	v.stream.BeginGap(v.wall())
	v.silenceReadings()
	from := s.now
	s.episode(s.outageTime(10*time.Millisecond, 15*time.Second), func() {
		v.stream.EndGap(v.wall())
		v.resumeReadings()
		v.leaderBack(from)
	})
}

func (v *server) leaderBack(from Instant) {
	if v.s.now.Sub(from) >= watchLossTime {
		v.s.check.leaderReturned(from)
	}
}

func (s *Simulation) stepClock() {
	s.server.setClock(s.drawClock())
	s.server.stream.StepClock(s.server.clock, s.server.wall())
	s.episode(time.Second, func() {})
	s.server.changed()
}

func (v *server) silenceReadings() {
	for _, n := range v.s.nodes {
		n.reading.awaitSilence()
	}
}

func (v *server) resumeReadings() {
	v.changed()
	for _, n := range v.s.nodes {
		if n.reading.works() {
			n.reading.endSilence()
		}
		n.reading.schedulePoll()
	}
}
