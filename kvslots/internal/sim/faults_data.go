package sim

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// killServer kills the server, which breaks all connections. The model of the stream
// knows what the server finds on its disk when it restarts.
func (s *Simulation) killServer() {
	if s.server.down || s.server.stream.Leaderless() {
		return
	}
	from := s.now
	s.restart(func() {
		s.server.stream.Kill(s.server.wall())
		s.check.leaderReturned(from)
	})
}

// loseTail loses the last writes, of all servers of a replicated stream at once.
func (s *Simulation) loseTail() {
	if s.server.down || s.server.stream.Leaderless() {
		return
	}
	s.restart(s.dropTail())
}

// rollBack loses the last writes, while the connections of the peers live on: they are to
// a server that forwards to the stream's leader, which is restarted or replaced.
func (s *Simulation) rollBack() {
	v := s.server
	if v.down || v.stream.Leaderless() {
		return
	}
	drop := s.dropTail()
	v.stream.BeginGap(v.wall())
	s.episode(between(s.rng, 10*time.Millisecond, 2*time.Second), func() {
		drop()
		v.stream.EndGap(v.wall())
		v.resumeReadings()
	})
	v.silenceReadings()
}

func (s *Simulation) dropTail() func() {
	lost := 1 + uint64(s.rng.IntN(1+s.rng.IntN(30)))
	return func() {
		s.loseData(func() { s.server.stream.LoseTail(lost, s.server.wall()) })
	}
}

func (s *Simulation) restart(meanwhile func()) {
	v := s.server
	v.down = true
	v.stream.BeginGap(v.wall())
	for _, n := range s.nodes {
		if n.peer != nil {
			n.link.cut(false)
		}
	}
	s.episode(s.outageTime(50*time.Millisecond, 6*time.Second), func() {
		meanwhile()
		v.stream.EndGap(v.wall())
		v.down = false
		v.changed()
		for _, n := range s.nodes {
			most := 2 * time.Second
			if s.chance(0.2) { // others write more than was lost before this peer notices
				most = 5 * time.Second
			}
			s.after(s.upTo(most), n.alive(n.link.reconnect))
		}
	})
}

func (s *Simulation) loseData(what func()) {
	revisions := s.check.losses.beforeLoss()
	s.check.losses.lossUnderWay = true
	what()
	s.server.changed()
	s.check.losses.lossUnderWay = false
	s.check.losses.afterLoss(revisions)
}

func (s *Simulation) purgeStream() {
	if !s.server.reachable() {
		return
	}
	s.loseData(func() {
		s.server.stream.Purge(s.server.wall())
		s.server.truth.reload()
	})
	s.episode(time.Second, func() {})
}

func (s *Simulation) deleteStream() {
	v := s.server
	if !v.reachable() {
		return
	}
	s.loseData(func() {
		v.stream.Delete(v.wall())
		v.truth.reload()
	})
	v.silenceReadings()
	s.episode(between(s.rng, 10*time.Millisecond, 5*time.Second), func() {
		v.stream.Create(0, v.wall())
		v.resumeReadings()
	})
}

func (s *Simulation) compactBlocks() {
	s.server.stream.Compact(s.server.stream.Info().Last)
	s.met.add("trap: compacted")
}

// outage stops all peers for about as long as keys live without them. When the keys
// expire, an unreplicated server may be killed, so that it reads its files again.
func (s *Simulation) outage() {
	d := rules.Guard - time.Minute + s.upTo(3*time.Minute)
	for _, n := range s.nodes {
		n.kill()
		s.episode(d+s.upTo(5*time.Second), n.start)
	}
	v := s.server
	s.after(rules.Guard+s.upTo(20*time.Second), func() {
		if !v.stream.Leaderless() && !v.down {
			v.stream.Kill(v.wall())
			v.resumeReadings()
		}
	})
}
