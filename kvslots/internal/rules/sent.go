package rules

// sent is when this peer sent something, and a revision: entries from that one on
// were written later.
type sent struct {
	revision uint64
	at       Instant
}

// sends tell how long ago an entry was written, at most: later than what this peer
// had sent, and what the stream has before it. No clock but this machine's counts.
// The timestamps would do as long as the leader's clock is never stepped; but a step
// ahead looks the same as a view that is behind.
type sends struct {
	passed Instant // when the last was sent that the view has passed; 0: none yet
	coming [2]sent // those that it has not: the first that came, and the last
}

// Sent notes that this peer sent something, at that time, before the stream had that
// revision.
func (w *World) Sent(revision uint64, at Instant) {
	switch s := &w.sends; {
	case revision <= w.Revision:
		s.passed = max(s.passed, at)
	case s.coming[0].revision == 0:
		s.coming[0] = sent{revision, at}
	default:
		s.coming[1] = sent{revision, at}
	}
}

// reach notes that the view has an entry of that revision.
func (s *sends) reach(revision uint64) {
	for s.coming[0].revision != 0 && s.coming[0].revision <= revision {
		s.passed = max(s.passed, s.coming[0].at)
		s.coming = [2]sent{s.coming[1]}
	}
}
