package stream

import "time"

// record is a message as the server's block file has it. What is superseded or
// removed stays in the file until the file is compacted.
type record struct {
	Stored
	written time.Time     // when, by the simulator's clock
	ttl     time.Duration // 0: for ever
	live    bool          // the key's message that stands
	expired bool          // the server's own marker is under way

	before  uint64 // the sequence that it superseded
	over    uint64 // the sequence that superseded it; no tombstone says so
	removed bool   // by itself, with a tombstone in the file
	since   uint64 // the last sequence when it was removed
	gone    bool   // the file was compacted
}

// stoodAt reports whether the record was live when sequence was the last one.
func (r *record) stoodAt(sequence uint64) bool {
	return !r.gone && r.Sequence <= sequence && (r.over == 0 || r.over > sequence) && (!r.removed || r.since >= sequence)
}

// recordLog has every record since base, one for each sequence.
type recordLog struct {
	base    uint64
	records []record
}

func (l *recordLog) at(sequence uint64) *record { return &l.records[sequence-l.base] }

// index is where a sequence is, or would be.
func (l *recordLog) index(sequence uint64) int {
	if sequence < l.base {
		return 0
	}
	return int(min(sequence-l.base, uint64(len(l.records))))
}

// next returns the first live record from a sequence on, nil if there is none.
func (l *recordLog) next(from uint64) *record {
	for i := l.index(from); i < len(l.records); i++ {
		if l.records[i].live {
			return &l.records[i]
		}
	}
	return nil
}

// trim drops the records before the first one that the file still has.
func (l *recordLog) trim() {
	n := 0
	for n < len(l.records) && l.records[n].gone {
		n++
	}
	l.records = append([]record(nil), l.records[n:]...)
	l.base += uint64(n)
}

// cut drops the records behind a sequence.
func (l *recordLog) cut(last uint64) {
	if keep := l.index(last + 1); keep < len(l.records) {
		clear(l.records[keep:])
		l.records = l.records[:keep]
	}
	l.base = min(l.base, last+1)
}

// store puts a message behind the last one, in the place of its key's. ttl says
// how long it may stand, 0 for ever.
func (s *Stream) store(key string, h Header, data []byte, ttl time.Duration) uint64 {
	s.last++
	if s.last <= s.highest {
		s.met[SequenceReused]++
	}
	s.highest = max(s.highest, s.last)
	before := s.current[key]
	if before != 0 {
		r := s.log.at(before)
		r.live, r.over = false, s.last
	}
	s.current[key] = s.last
	s.log.records = append(s.log.records, record{
		Stored:  Stored{Sequence: s.last, Time: s.leaderTime(), Key: key, Header: h, Data: data},
		written: s.now, ttl: ttl, live: true, before: before,
	})
	s.schedule(s.log.at(s.last))
	return s.last
}

// remove deletes a live record, as the server does when a marker's time is over.
func (s *Stream) remove(r *record) {
	delete(s.current, r.Key)
	r.live, r.removed, r.since = false, true, s.last
	if len(s.current) == 0 {
		s.Compact(s.last) // a block without a message is unlinked
	}
}
