package stream

// Consumer is an ephemeral push consumer. It delivers the messages from a sequence on,
// in order.
type Consumer struct {
	stream    *Stream
	epoch     int
	next      uint64
	delivered uint64
}

// Consumer creates a consumer whose first message has at least the given sequence,
// which the stream need not have reached yet.
func (s *Stream) Consumer(from uint64) *Consumer {
	return &Consumer{stream: s, epoch: s.consumerEpoch, next: from}
}

// Next returns the next message to deliver, as the stream is now. It returns false if
// there is none, or if the consumer is lost.
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

// skips reports whether a message before the given sequence was overwritten before its
// delivery.
func (c *Consumer) skips(until uint64) bool {
	return c.delivered > 0 && c.stream.log.index(c.next) < c.stream.log.index(until)
}

// Lost reports whether the consumer is gone. A real server does not notify the client:
// there are no more heartbeats.
func (c *Consumer) Lost() bool { return c.epoch != c.stream.consumerEpoch }

// LoseConsumers ends all consumers without notice, as a server does that stops, or that
// sees no subscribers of theirs any more.
func (s *Stream) LoseConsumers() {
	s.consumerEpoch++
	s.met[ConsumerLost]++
}

// DirectGet returns up to limit messages from a sequence on, in order, like a batch of
// direct gets. If the stream is replicated and has the trap StaleGets, it answers like
// a replica that is behind by that many sequences.
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
