package stream

import (
	"container/heap"
	"slices"
	"time"
)

// BeginGap takes the stream's leader away: until EndGap nothing is written and
// nothing expires. For an unreplicated stream that is a server that is down.
func (s *Stream) BeginGap(now time.Time) {
	s.Advance(now)
	s.leaderless = true
}

// EndGap ends the time without a leader.
func (s *Stream) EndGap(now time.Time) {
	s.Advance(now)
	s.leaderless = false
}

// Leaderless reports whether the stream is without a leader.
func (s *Stream) Leaderless() bool { return s.leaderless }

// StepClock sets the leader's clock: ahead of the simulator's by that much, or
// behind for a negative one. Timestamps and expiries go by it.
func (s *Stream) StepClock(ahead time.Duration, now time.Time) {
	s.Advance(now)
	s.clock = ahead
}

// ChangeLeader elects another leader of a replicated stream, whose clock is ahead
// by that much. If the old one died, nothing expires for a while, and the consumers
// are lost.
func (s *Stream) ChangeLeader(ahead time.Duration, died bool, now time.Time) {
	s.StepClock(ahead, now)
	if !died || !s.replicated() {
		return
	}
	t := s.opts.Traps
	s.quietUntil = s.now.Add(t.DeathExpiryMin + s.upTo(t.DeathExpiryMax-t.DeathExpiryMin))
	s.LoseConsumers()
}

// Kill stops a server without warning (kill -9) and starts it again. Of a
// replicated stream it is the leader that dies, and another one goes on. An
// unreplicated one reads its block file again: of each key the last record that
// no tombstone names is current, however long ago it was superseded.
func (s *Stream) Kill(now time.Time) {
	if s.replicated() {
		s.ChangeLeader(s.clock, true, now)
		return
	}
	s.Advance(now)
	s.recover()
}

// LoseTail takes the last n writes away, with whatever was removed since the first
// of them, as a power cut does to a server that flushes late. It does not reach
// back behind a purge. The last sequence goes back, and the server reads its block
// file again as after Kill.
func (s *Stream) LoseTail(n uint64, now time.Time) {
	s.Advance(now)
	n = min(n, s.last+1-s.first)
	if n == 0 {
		return
	}
	s.met[TailLost]++
	lost := s.log.records[s.log.index(s.last-n+1):]
	var superseding []string // keys that had a message before as well
	for i := range lost {
		if b := lost[i].before; b != 0 && b <= s.last-n {
			superseding = append(superseding, lost[i].Key)
		}
	}
	s.last -= n
	s.log.cut(s.last)
	for i := range s.log.records {
		if r := &s.log.records[i]; r.since > s.last {
			r.removed, r.since = false, 0 // its tombstone is lost as well
		}
	}
	s.recover()
	for _, key := range superseding {
		if _, ok := s.current[key]; !ok {
			s.met[SupersededLost]++
		}
	}
}

// recover reads the block file as a server does that starts again.
func (s *Stream) recover() {
	s.LoseConsumers()
	s.markers, s.expiries = nil, nil
	clear(s.current)
	for i := range s.log.records {
		r := &s.log.records[i]
		if r.live, r.expired = false, false; r.gone {
			continue
		}
		if !r.removed {
			s.current[r.Key] = r.Sequence
		} else if !s.opts.Traps.ReviveAfterKill {
			delete(s.current, r.Key)
		}
	}
	for i := range s.log.records {
		r := &s.log.records[i]
		if s.current[r.Key] != r.Sequence {
			continue
		}
		if r.over != 0 && r.over <= s.last {
			s.met[Revived]++
		}
		r.live, r.over = true, 0
		s.schedule(r)
	}
}

// Compact rewrites the block file up to a sequence: what is superseded or removed
// is gone and cannot be revived. The server compacts a block, other than the one
// that it writes, when half of it is dead. It does so before the successors are
// surely on the disk: together with LoseTail a key may lose both.
func (s *Stream) Compact(upTo uint64) {
	for i := range s.log.records[:s.log.index(upTo+1)] {
		if r := &s.log.records[i]; !r.live {
			r.gone = true
			r.Data, r.Header = nil, Header{}
		}
	}
	s.log.trim()
	s.expiries = slices.DeleteFunc(s.expiries, func(e expiry) bool { return !s.lives(e.sequence) })
	heap.Init(&s.expiries)
}

// Purge removes all messages (nats stream purge). The last sequence stays.
func (s *Stream) Purge(now time.Time) {
	s.Advance(now)
	s.met[StreamPurged]++
	s.first = s.last + 1
	s.clear()
}

// Delete deletes the stream: there is none until Create.
func (s *Stream) Delete(now time.Time) {
	s.Advance(now)
	s.LoseConsumers()
	s.exists, s.markers = false, nil
	s.clear()
}

// Create creates the stream where there is none, and reports whether it did. A
// first sequence of 0 stands for the microseconds since 1970.
func (s *Stream) Create(first uint64, now time.Time) bool {
	s.Advance(now)
	if s.exists {
		return false
	}
	before := s.last
	s.create(first)
	s.met[StreamReplaced]++
	if s.last < before {
		s.met[FirstSequenceBack]++
	}
	return true
}
