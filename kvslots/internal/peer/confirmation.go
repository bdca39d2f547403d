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

func (k *kernel) confirm(c *call) {
	f, from := &k.self.confirmation, k.now.Add(-confirmedFor)
	if f.sentAt != 0 && f.sentAt >= from {
		c.answer(Answer{})
		return
	}
	e := &timer{fire: func() { c.end(nil) }}
	f.waiting.start(e, from)
	c.quit = quitFunc(func(why error) {
		f.waiting.stop(e)
		c.answer(Answer{Err: why})
	})
	k.self.refresh()
}

// confirm records that the view shows a refresh that was sent at an instant.
func (f *confirmation) confirm(sent Instant) {
	f.sentAt = sent
	f.waiting.run(f.sentAt)
}
