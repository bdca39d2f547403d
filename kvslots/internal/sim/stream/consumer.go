package stream

// Consumer is a push consumer, kept in memory: it sends the messages from a
// sequence on, in order.
type Consumer struct {
	stream    *Stream
	epoch     int
	next      uint64
	delivered uint64
}

// Consumer creates a consumer that begins at a sequence; 0 is the first message.
// A sequence that the stream has not reached yet is waited for.
func (s *Stream) Consumer(from uint64) *Consumer {
	return &Consumer{stream: s, epoch: s.epoch, next: from}
}

// Next returns the next message to send: in sequence order, of what stands at
// the moment of the call. It returns false when there is none, or no more.
func (c *Consumer) Next() (Stored, bool) {
	if c.Lost() {
		return Stored{}, false
	}
	r := c.stream.log.next(c.next)
	if r == nil {
		return Stored{}, false
	}
	if c.skips(r.Sequence) {
		c.stream.met[SkippedDelivery]++
	}
	c.next = r.Sequence + 1
	c.delivered++
	return r.Stored, true
}

// skips reports whether something that the consumer should have sent was
// overwritten before it could be.
func (c *Consumer) skips(until uint64) bool {
	return c.delivered > 0 && c.stream.log.index(c.next) < c.stream.log.index(until)
}

// Delivered is the consumer sequence of the last message, 0 before the first
// one. It has no holes: what was skipped takes no number.
func (c *Consumer) Delivered() uint64 { return c.delivered }

// Lost reports whether the consumer is gone. A real one is so without a word:
// it sends no heartbeat any more.
func (c *Consumer) Lost() bool { return c.epoch != c.stream.epoch }

// LoseConsumers ends all consumers, as a server does that stops or that lost
// interest in their subscribers. Without a word.
func (s *Stream) LoseConsumers() {
	s.epoch++
	s.met[ConsumerLost]++
}

// DirectGet returns up to limit messages from a sequence on, in order (batched
// direct gets). behind is by how many sequences the replica that answers
// is behind; it counts for nothing unless the stream is replicated and the trap
// StaleGets is on.
func (s *Stream) DirectGet(from uint64, limit int, behind uint64) []Stored {
	var found []Stored
	stands := func(r *record) bool { return r.live }
	if behind > 0 && s.replicated() && s.opts.Traps.StaleGets {
		s.met[StaleGet]++
		as := s.last - min(behind, s.last)
		stands = func(r *record) bool { return r.stoodAt(as) }
	}
	for i := s.log.index(from); i < len(s.log.records) && len(found) < limit; i++ {
		if r := &s.log.records[i]; stands(r) {
			found = append(found, r.Stored)
		}
	}
	return found
}
