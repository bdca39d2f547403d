package peer

import "time"

// confirmedFor is how long a Confirm may be answered on the strength of an earlier
// write.
const confirmedFor = 500 * time.Millisecond

// confirmation records the latest refresh of the presence that is acknowledged and in the
// view: at some instant since it was sent, the stream took writes.
type confirmation struct {
	begun    Instant             // when the pending refresh was sent
	revision uint64              // of the latest acknowledged refresh
	sent     Instant             // when that one was sent
	at       Instant             // when the latest one was sent that is acknowledged and in the view
	waiting  eventQueue[Instant] // Confirms, by the earliest value of at that answers them
}

func (r Confirm) begin(p *Peer, c *call) {
	f, from := &p.self.confirmation, p.now.Add(-confirmedFor)
	if p.watch.mode == live && f.at != 0 && f.at >= from {
		c.answer(Answer{})
		return
	}
	e := &timer{fire: func() { c.end(nil) }}
	f.waiting.start(e, from)
	c.quit = func(why error) {
		f.waiting.stop(e)
		c.answer(Answer{Err: why})
	}
	p.self.refresh()
}

// answered records the answer to a refresh. The view shows the presence at a revision.
func (f *confirmation) answered(a Ack, shows uint64) {
	if a.Outcome == Written {
		f.revision, f.sent = a.Revision, f.begun
		f.shown(shows)
	}
}

// shown records that the view shows the presence at a revision.
func (f *confirmation) shown(revision uint64) {
	if f.revision == 0 || revision < f.revision || f.sent <= f.at {
		return
	}
	f.at = f.sent
	f.waiting.run(f.at)
}
