package rules

// sent is when this peer sent a message: entries from revision on were written after
// that instant.
type sent struct {
	revision uint64
	at       Instant
}

// sends bounds the age of an entry by this machine's clock alone: the entry was
// written after this peer sent the messages that are below it in the stream. The entry's
// timestamp does not help, since a stepped leader's clock looks like a late view.
type sends struct {
	passed Instant // when this peer sent the last of its messages that the view has reached; 0: none
	coming [2]sent // of the messages that the view has not reached, the first and the last
}

// Sent records that this peer sent a message at an instant, before the stream had the
// given revision.
func (v *View) Sent(revision uint64, at Instant) {
	switch s := &v.sends; {
	case revision <= v.Revision:
		s.passed = max(s.passed, at)
	case s.coming[0].revision == 0:
		s.coming[0] = sent{revision, at}
	default:
		s.coming[1] = sent{revision, at}
	}
}

// reach records that the view has reached a revision.
func (s *sends) reach(revision uint64) {
	for s.coming[0].revision != 0 && s.coming[0].revision <= revision {
		s.passed = max(s.passed, s.coming[0].at)
		s.coming = [2]sent{s.coming[1]}
	}
}
