package stream

import (
	"slices"
	"time"
)

// BeginGap takes the stream's leader away. Until EndGap nothing is written and nothing
// expires. For an unreplicated stream this means that the server is down.
func (s *Stream) BeginGap(now time.Time) {
	s.Advance(now)
	s.leaderless = true
}

func (s *Stream) EndGap(now time.Time) {
	s.Advance(now)
	s.leaderless = false
}

func (s *Stream) Leaderless() bool { return s.leaderless }

// StepClock sets the difference between the leader's clock and the simulator's.
// Timestamps and expiries use the leader's clock.
func (s *Stream) StepClock(ahead time.Duration, now time.Time) {
	s.Advance(now)
	s.clock = ahead
}

// ChangeLeader elects another leader of a replicated stream, and sets the difference
// between its clock and the simulator's. If the old leader died, nothing expires for a
// while, and the consumers are lost.
func (s *Stream) ChangeLeader(ahead time.Duration, died bool, now time.Time) {
	s.StepClock(ahead, now)
	if !died || !s.replicated() {
		return
	}
	t := s.opts.Traps
	s.noExpiryUntil = s.now.Add(t.DeathExpiryMin + s.upTo(t.DeathExpiryMax-t.DeathExpiryMin))
	s.LoseConsumers()
}

// Kill kills a server (kill -9) and restarts it. If the stream is replicated, the
// server is the leader, and another one is elected. If not, the server reads its block
// file again: the current message of each key is then the last one without a tombstone,
// even if it was superseded.
func (s *Stream) Kill(now time.Time) {
	if s.replicated() {
		s.ChangeLeader(s.clock, true, now)
		return
	}
	s.Advance(now)
	s.recover()
}

// LoseTail loses the last n writes, and the removals since the first of them, like a
// power failure of a server that syncs late. It loses nothing from before a purge. The
// last sequence goes back, and the server reads its block file again as after Kill, even
// if n is 0.
func (s *Stream) LoseTail(n uint64, now time.Time) {
	s.Advance(now)
	n = min(n, s.last+1-s.first)
	if n == 0 {
		s.recover()
		return
	}
	s.met[TailLost]++
	lost := s.log.records[s.log.index(s.last-n+1):]
	var superseding []string // keys that had an earlier message
	for i := range lost {
		if b := lost[i].supersedes; b != 0 && b <= s.last-n {
			superseding = append(superseding, lost[i].Key)
		}
	}
	s.last -= n
	s.log.cut(s.last)
	for i := range s.log.records {
		if r := &s.log.records[i]; r.removedAt > s.last {
			r.removed, r.removedAt = false, 0 // its tombstone is lost, too
		}
	}
	s.recover()
	for _, key := range superseding {
		if _, ok := s.current[key]; !ok {
			s.met[SupersededLost]++
		}
	}
}

func (s *Stream) recover() {
	s.LoseConsumers()
	s.markers, s.expiries = nil, nil
	clear(s.current)
	for i := range s.log.records {
		r := &s.log.records[i]
		if r.live, r.expired = false, false; r.compacted {
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
		if r.supersededBy != 0 && r.supersededBy <= s.last {
			s.met[Revived]++
			s.revived[r.Key] = true
		}
		r.live, r.supersededBy = true, 0
		s.schedule(r)
	}
}

// EarlyMarkers returns the keys of which a marker has expired before its time was over.
func (s *Stream) EarlyMarkers() map[string]bool { return s.early }

// RevivedKeys returns the keys of which a restart has brought back a superseded message.
func (s *Stream) RevivedKeys() map[string]bool { return s.revived }

// Compact compacts the block file up to a sequence, which drops superseded and removed
// records, so that Kill cannot revive them. A server compacts a block when half of it
// is dead, unless it is still writing to it. It may do so before the successors are on
// disk, so that LoseTail can lose both.
func (s *Stream) Compact(upTo uint64) {
	for i := range s.log.records[:s.log.index(upTo+1)] {
		if r := &s.log.records[i]; !r.live {
			r.compacted = true
			r.Data, r.Header = nil, Header{}
		}
	}
	s.log.trim()
	s.expiries = slices.DeleteFunc(s.expiries, func(e expiry) bool { return !s.lives(e.sequence) })
}

// Purge removes all messages (nats stream purge). The last sequence stays.
func (s *Stream) Purge(now time.Time) {
	s.Advance(now)
	s.met[StreamPurged]++
	s.first = s.last + 1
	s.clear()
}

func (s *Stream) Delete(now time.Time) {
	s.Advance(now)
	s.LoseConsumers()
	s.exists, s.markers = false, nil
	s.clear()
}

// Create creates the stream if it does not exist, and reports whether it did. A first
// sequence of 0 stands for the microseconds since 1970.
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
