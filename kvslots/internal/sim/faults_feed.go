package sim

import "time"

func (s *Simulation) loseBurst() {
	s.stopFeedFor(between(s.rng, time.Millisecond, 500*time.Millisecond))
}

// stopFeed stops the feed of a peer for a while. Its acknowledgements go on.
func (s *Simulation) stopFeed() { s.stopFeedFor(s.outageTime(500*time.Millisecond, 12*time.Second)) }

func (s *Simulation) stopFeedFor(d time.Duration) {
	n := s.anyNode()
	n.feed.stopped++
	s.episode(d, func() { n.feed.stopped-- })
}

// loseAcks loses all acknowledgements to a peer for a while. Its feed goes on.
func (s *Simulation) loseAcks() {
	l := s.anyNode().link
	l.acksLost++
	s.episode(s.outageTime(500*time.Millisecond, 8*time.Second), func() { l.acksLost-- })
}

// slowFeed makes a peer slow, so that what comes is late by seconds.
func (s *Simulation) slowFeed() {
	n := s.anyNode()
	if n.feed.extraDelay > 0 {
		return
	}
	d := 300*time.Millisecond + s.upTo(4*time.Second)
	n.feed.extraDelay, n.reading.extraDelay = d, d
	s.episode(between(s.rng, 2*time.Second, 12*time.Second), func() {
		n.feed.extraDelay, n.reading.extraDelay = 0, 0
		n.reading.schedulePoll()
	})
}

// deafPeer loses whatever comes to a peer: entries, acknowledgements and readings. Its writes go on.
func (s *Simulation) deafPeer() {
	n := s.anyNode()
	n.deaf++
	n.feed.stopped++
	n.link.acksLost++
	s.episode(s.outageTime(500*time.Millisecond, 12*time.Second), func() {
		n.deaf--
		n.feed.stopped--
		n.link.acksLost--
		n.reading.schedulePoll()
	})
	n.reading.awaitSilence()
}

// rebuildView has a peer find another creation time: it builds its view anew, in whatever phase its work is.
func (s *Simulation) rebuildView() {
	n := s.anyNode()
	if n.peer == nil || n.closing || s.now < n.reading.rebuilt.Add(rebuildTime) {
		return
	}
	n.reading.createdLater, n.reading.rebuilt = n.reading.createdLater+time.Nanosecond, s.now
	n.reading.interrupt()
	s.episode(time.Second, func() {})
}

func (s *Simulation) stepDown() {
	v := s.server
	if v.stream.Leaderless() || v.partition != nil {
		return
	}
	v.handOver(func() {
		v.stream.BeginGap(v.wall())
		ahead := s.drawClock()
		last := v.stream.Info().Last
		s.episode(between(s.rng, 5*time.Millisecond, 60*time.Millisecond), func() {
			v.stream.EndGap(v.wall())
			v.setClock(ahead)
			v.stream.ChangeLeader(ahead, false, v.wall())
			v.depose(last)
			v.resumeReadings()
		})
		v.silenceReadings()
	})
}

func (s *Simulation) isolateServer() {
	v := s.server
	if v.down || v.stream.Leaderless() || v.partition != nil || !v.stream.Exists() {
		return
	}
	leads, server := s.chance(0.5), s.anyNode().link.server
	begin := func() {
		v.partition = &partition{server: server, since: v.stream.Info().Last, leads: leads, keeps: s.chance(0.5), proposed: map[string]bool{}}
		s.beginPartition(v.partition)
	}
	if leads {
		v.handOver(func() {
			if v.partition == nil {
				begin()
			}
		})
	} else {
		begin()
	}
}

func (s *Simulation) beginPartition(p *partition) {
	v := s.server
	d := between(s.rng, 5*time.Second, 13*time.Second)
	s.tracef("FAULT", "server %d is cut off for %v; it is the leader: %t; what is sent to it arrives later: %t", p.server, d, p.leads, p.keeps)
	if p.leads {
		v.stream.BeginGap(v.wall())
		if elected := 4*time.Second + s.upTo(3*time.Second); elected < d {
			ahead, from := s.drawClock(), s.now
			s.after(elected, func() {
				p.deposed = true
				v.stream.EndGap(v.wall())
				v.setClock(ahead)
				v.stream.ChangeLeader(ahead, true, v.wall())
				v.resumeReadings()
				v.leaderBack(from)
			})
		}
	}
	v.silenceReadings()
	s.episode(d, func() { s.endPartition(p) })
}

func (s *Simulation) endPartition(p *partition) {
	v := s.server
	v.partition = nil
	switch {
	case p.deposed:
		v.depose(p.since)
	case p.leads:
		v.stream.EndGap(v.wall())
	}
	for _, w := range p.kept {
		if s.now.Sub(w.at) <= longestKept || !w.write {
			w.run()
		}
	}
	v.resumeReadings()
}
