package stream

// Consumer is an ephemeral push consumer. It delivers the messages from a sequence on,
// in order.
type Consumer struct {
	stream    *Stream
	epoch     int
	next      uint64
	delivered uint64
	behind    bool
	last      uint64 // the last sequence that the replica has applied, if it is behind
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
	r := c.find()
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

func (c *Consumer) find() *record {
	l := &c.stream.log
	if !c.behind {
		return l.next(c.next)
	}
	for i := l.index(c.next); i < l.index(c.last+1); i++ {
		if r := &l.records[i]; r.stoodAt(c.last) {
			return r
		}
	}
	return nil
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

// Behind lets a consumer deliver what a replica has that has not applied more than a
// sequence, until CatchUp is called.
func (c *Consumer) Behind(last uint64) {
	c.behind, c.last = true, last
	c.stream.met[LateReplica]++
}

func (c *Consumer) CatchUp() { c.behind = false }
