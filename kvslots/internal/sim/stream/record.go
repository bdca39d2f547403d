package stream

import "time"

// record is a message in the server's block file. Superseded and removed records stay
// in the file until it is compacted.
type record struct {
	Stored
	written time.Time     // by the simulator's clock
	ttl     time.Duration // 0 means forever
	live    bool          // the key's current message
	expired bool          // the server's marker is under way

	supersedes   uint64 // sequence of the key's message before; 0 for none
	supersededBy uint64 // sequence of the key's next message; the file has no tombstone for this
	removed      bool   // not superseded, but removed with a tombstone
	removedAt    uint64 // the stream's last sequence when it was removed
	compacted    bool   // no longer in the file
}

func (r *record) stoodAt(sequence uint64) bool {
	return !r.compacted && r.Sequence <= sequence && (r.supersededBy == 0 || r.supersededBy > sequence) && (!r.removed || r.removedAt >= sequence)
}

type recordLog struct {
	base    uint64
	records []record
}

func (l *recordLog) at(sequence uint64) *record { return &l.records[sequence-l.base] }

func (l *recordLog) index(sequence uint64) int {
	if sequence < l.base {
		return 0
	}
	return int(min(sequence-l.base, uint64(len(l.records))))
}

func (l *recordLog) next(from uint64) *record {
	for i := l.index(from); i < len(l.records); i++ {
		if l.records[i].live {
			return &l.records[i]
		}
	}
	return nil
}

func (l *recordLog) trim() {
	n := 0
	for n < len(l.records) && l.records[n].compacted {
		n++
	}
	l.records = append([]record(nil), l.records[n:]...)
	l.base += uint64(n)
}

func (l *recordLog) cut(last uint64) {
	if keep := l.index(last + 1); keep < len(l.records) {
		clear(l.records[keep:])
		l.records = l.records[:keep]
	}
	l.base = min(l.base, last+1)
}

// store appends a message, which supersedes the key's current one. A ttl of 0 means
// forever.
func (s *Stream) store(key string, h Header, data []byte, ttl time.Duration) uint64 {
	s.last++
	if s.last <= s.highest {
		s.met[SequenceReused]++
	}
	s.highest = max(s.highest, s.last)
	before := s.current[key]
	if before != 0 {
		r := s.log.at(before)
		r.live, r.supersededBy = false, s.last
	}
	s.current[key] = s.last
	s.log.records = append(s.log.records, record{
		Stored:  Stored{Sequence: s.last, Time: s.leaderTime(), Key: key, Header: h, Data: data},
		written: s.now, ttl: ttl, live: true, supersedes: before,
	})
	s.schedule(s.log.at(s.last))
	s.republished = append(s.republished, s.log.at(s.last).Stored)
	return s.last
}

func (s *Stream) remove(r *record) {
	delete(s.current, r.Key)
	r.live, r.removed, r.removedAt = false, true, s.last
	if len(s.current) == 0 {
		s.Compact(s.last) // the server unlinks a block without messages
	}
}
