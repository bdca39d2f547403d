package sim

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// fault is a kind of episode: something that breaks for a while.
type fault int

// The kinds of episodes.
const (
	cutLink       fault = iota // a peer's connection breaks
	stallLink                  // writes of a peer are under way for long
	pausePeer                  // a peer does not run
	suspendPeer                // a peer does not run, and its clock stands still
	killPeer                   // a peer dies, and is started again
	closePeer                  // a peer closes, and is started again
	loseWatch                  // a consumer goes without a word
	refuseWatch                // no consumer can be created
	slowWatch                  // a consumer is late by seconds, and gets little at a time
	changeLeader               // another leader, whose clock differs
	leaderGap                  // no leader
	stepClock                  // the leader's clock is set
	killServer                 // the server is killed (kill -9), and started again
	loseTail                   // a power cut takes the last writes
	purgeStream                // an operator purges the stream
	deleteStream               // an operator deletes the stream; another process creates it
	compactBlocks              // the server rewrites its block files
	outage                     // all peers die, and are started again when the server has dropped what they wrote
	faults
)

var faultNames = [faults]string{
	"cut-link", "stall-link", "pause-peer", "suspend-peer", "kill-peer", "close-peer", "lose-watch", "refuse-watch", "slow-watch",
	"change-leader", "leader-gap", "step-clock", "kill-server", "lose-tail", "purge-stream", "delete-stream", "compact-blocks", "outage",
}

func (f fault) String() string { return faultNames[f] }

// fits reports whether a fault can happen under a plan.
func (f fault) fits(p *Plan) bool {
	switch f {
	case changeLeader:
		return p.Replicas > 1
	case killServer:
		return p.Replicas == 1
	}
	return true
}

// grave reports whether the fault takes something away that was acknowledged.
func (f fault) grave() bool { return f == loseTail || f == purgeStream || f == deleteStream }

// scheduleFaults draws when the episodes begin.
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
			s.note("FAULT", "%s", f)
		}
		episodes[f](s)
		s.nextFault(f, perMinute)
	})
}

// episodes begin an episode. Each ends by itself.
var episodes [faults]func(*Simulation)

func init() {
	episodes = [faults]func(*Simulation){
		cutLink: (*Simulation).cutLink, stallLink: (*Simulation).stallLink,
		pausePeer:   func(s *Simulation) { s.pausePeer(false) },
		suspendPeer: func(s *Simulation) { s.pausePeer(true) },
		killPeer:    (*Simulation).killPeer, closePeer: (*Simulation).closePeer,
		loseWatch: (*Simulation).loseWatch, refuseWatch: (*Simulation).refuseWatch, slowWatch: (*Simulation).slowWatch,
		changeLeader: (*Simulation).changeLeader, leaderGap: (*Simulation).leaderGap, stepClock: (*Simulation).stepClock,
		killServer: (*Simulation).killServer, loseTail: (*Simulation).loseTail,
		purgeStream: (*Simulation).purgeStream, deleteStream: (*Simulation).deleteStream,
		compactBlocks: (*Simulation).compactBlocks, outage: (*Simulation).outage,
	}
}

// episode makes the simulation uncalm for a while, and ends then.
func (s *Simulation) episode(d time.Duration, end func()) {
	s.calm.begin()
	s.after(d, func() {
		end()
		s.calm.end(s.now)
	})
}

// loneEpisode is the same for a fault of one peer alone.
func (s *Simulation) loneEpisode(d time.Duration, end func()) {
	s.calm.beginLone()
	s.after(d, func() {
		end()
		s.calm.endLone(s.now)
	})
}

func (s *Simulation) anyNode() *node { return s.nodes[s.rng.IntN(len(s.nodes))] }

// long draws a duration, mostly short.
func (s *Simulation) long(from, to time.Duration) time.Duration { return between(s.rng, from, to) }

func (s *Simulation) cutLink() {
	n := s.anyNode()
	if n.peer == nil || !n.link.up {
		return
	}
	n.link.cut(s.chance(0.5))
	s.episode(s.long(20*time.Millisecond, 12*time.Second), n.alive(n.link.join))
}

func (s *Simulation) stallLink() {
	l := s.anyNode().link
	d := s.long(100*time.Millisecond, 9*time.Second)
	l.stalled = max(l.stalled, s.now.Add(d))
	s.episode(d, func() {})
}

func (s *Simulation) pausePeer(suspended bool) {
	n := s.anyNode()
	if n.peer == nil || n.pauses > 0 {
		return
	}
	d := s.long(100*time.Millisecond, 20*time.Second)
	if s.chance(0.05) {
		d = s.long(90*time.Second, 4*time.Minute) // longer than a marker lives
	}
	n.pause(d, suspended)
	s.loneEpisode(d+time.Millisecond, func() {})
}

func (s *Simulation) killPeer() {
	n := s.anyNode()
	n.kill()
	s.loneEpisode(s.long(10*time.Millisecond, 20*time.Second), n.begin)
}

func (s *Simulation) closePeer() {
	n := s.anyNode()
	n.leave()
	s.loneEpisode(s.long(6*time.Second, 20*time.Second), n.begin)
}

func (s *Simulation) loseWatch() {
	w := s.anyNode().watch
	if w.consumer == nil {
		return
	}
	w.cut = true
	w.consumer = nil
	w.silence()
	s.episode(silence, func() {})
}

func (s *Simulation) refuseWatch() {
	s.server.noWatch++
	s.episode(s.long(100*time.Millisecond, 10*time.Second), func() { s.server.noWatch-- })
}

func (s *Simulation) slowWatch() {
	w := s.anyNode().watch
	if w.late > 0 {
		return
	}
	w.late = 300*time.Millisecond + s.upTo(4*time.Second)
	s.episode(s.long(2*time.Second, 12*time.Second), func() {
		w.late = 0
		w.wake()
	})
}

// step draws another clock for the leader.
func (s *Simulation) step() time.Duration {
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
	if v.stream.Leaderless() {
		return
	}
	died := s.chance(0.5)
	v.stream.BeginGap(v.wall())
	ahead, from := s.step(), s.now
	s.episode(s.long(10*time.Millisecond, 6*time.Second), func() {
		v.stream.EndGap(v.wall())
		v.setClock(ahead)
		v.stream.ChangeLeader(ahead, died, v.wall())
		v.back()
		v.led(from)
	})
	v.silent()
}

func (s *Simulation) leaderGap() {
	v := s.server
	if v.stream.Leaderless() {
		return
	}
	v.stream.BeginGap(v.wall())
	v.silent()
	from := s.now
	s.episode(s.long(10*time.Millisecond, 15*time.Second), func() {
		v.stream.EndGap(v.wall())
		v.back()
		v.led(from)
	})
}

// led is when the stream has a leader again.
func (v *server) led(from Instant) {
	if v.s.now.Sub(from) >= noticed {
		v.s.check.ledAgain(from)
	}
}

func (s *Simulation) stepClock() {
	s.server.setClock(s.step())
	s.server.stream.StepClock(s.server.clock, s.server.wall())
	s.episode(time.Second, func() {})
	s.server.changed()
}

// silent is when the watches are not heard any more.
func (v *server) silent() {
	for _, n := range v.s.nodes {
		n.watch.silence()
	}
}

// back is when the stream works again.
func (v *server) back() {
	v.changed()
	for _, n := range v.s.nodes {
		if n.watch.works() {
			n.watch.heard()
		}
		n.watch.wake()
	}
}

// killServer takes the connections with it. What the server finds on its disk
// when it starts again, the stream's model knows.
func (s *Simulation) killServer() {
	if s.server.down || s.server.stream.Leaderless() {
		return
	}
	from := s.now
	s.restart(func() {
		s.server.stream.Kill(s.server.wall())
		s.check.ledAgain(from)
	})
}

// loseTail takes the last writes: of all servers at once, if there are several.
func (s *Simulation) loseTail() {
	if s.server.down || s.server.stream.Leaderless() {
		return
	}
	lost := 1 + uint64(s.rng.IntN(1+s.rng.IntN(30)))
	s.restart(func() {
		s.lose(func() { s.server.stream.LoseTail(lost, s.server.wall()) })
	})
}

// restart stops the server, or all of them, and starts it again.
func (s *Simulation) restart(meanwhile func()) {
	v := s.server
	v.down = true
	v.stream.BeginGap(v.wall())
	for _, n := range s.nodes {
		if n.peer != nil {
			n.link.cut(false)
		}
	}
	s.episode(s.long(50*time.Millisecond, 6*time.Second), func() {
		meanwhile()
		v.stream.EndGap(v.wall())
		v.down = false
		v.changed()
		for _, n := range s.nodes {
			most := 2 * time.Second
			if s.chance(0.2) { // the others write more than was lost before this one notices
				most = 5 * time.Second
			}
			s.after(s.upTo(most), n.alive(n.link.join))
		}
	})
}

// lose does something that takes acknowledged writes away.
func (s *Simulation) lose(what func()) {
	standing := s.check.beforeLoss()
	s.check.losing = true
	what()
	s.server.changed()
	s.check.losing = false
	s.check.afterLoss(standing)
}

func (s *Simulation) purgeStream() {
	if !s.server.reachable() {
		return
	}
	s.lose(func() {
		s.server.stream.Purge(s.server.wall())
		s.server.truth.begin()
	})
	s.episode(time.Second, func() {})
}

func (s *Simulation) deleteStream() {
	v := s.server
	if !v.reachable() {
		return
	}
	s.lose(func() {
		v.stream.Delete(v.wall())
		v.truth.begin()
	})
	v.silent()
	s.episode(s.long(10*time.Millisecond, 5*time.Second), func() {
		v.stream.Create(0, v.wall())
		v.back()
	})
}

func (s *Simulation) compactBlocks() {
	s.server.stream.Compact(s.server.stream.Info().Last)
	s.met.add("trap: compacted")
}

// outage lasts for about as long as keys live without peers. When they expire the
// server dies as well, or is killed and reads its files again.
func (s *Simulation) outage() {
	d := rules.Guard - time.Minute + s.upTo(3*time.Minute)
	for _, n := range s.nodes {
		n.kill()
		s.episode(d+s.upTo(5*time.Second), n.begin)
	}
	v := s.server
	s.after(rules.Guard+s.upTo(20*time.Second), func() {
		if !v.stream.Leaderless() && !v.down {
			v.stream.Kill(v.wall())
			v.back()
		}
	})
}
