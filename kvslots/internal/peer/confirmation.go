package peer

import "time"

// confirmedFor is how long a Confirm may be answered on the strength of an earlier
// write.
const confirmedFor = 500 * time.Millisecond

// confirmation records the latest refresh of the presence that the view shows: at some
// instant since it was sent, the stream took writes.
type confirmation struct {
	sentAt  Instant             // when that refresh was sent first
	waiting alarmQueue[Instant] // Confirms, by the earliest value of sentAt that answers them
}

func (f *keeper) confirm(c *call) {
	p, from := &f.presence, f.now().Add(-confirmedFor)
	if p.sentAt != 0 && p.sentAt >= from {
		c.answer(Answer{})
		return
	}
	e := alarmOf[Instant](nil, func() { c.end(nil) })
	p.waiting.start(e, from)
	c.onQuit(quitFunc(func(why error) {
		p.waiting.stop(e)
		c.answer(Answer{Err: why})
	}))
	p.refresh()
}

// confirm records that the view shows a refresh that was sent at an instant.
func (f *confirmation) confirm(sent Instant) {
	f.sentAt = sent
	f.waiting.run(f.sentAt)
}
