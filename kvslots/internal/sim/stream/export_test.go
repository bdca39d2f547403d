package stream

// What only the tests of the model ask.

// Len returns the number of live messages, including markers.
func (s *Stream) Len() int { return len(s.current) }

// Delivered returns the consumer sequence of the last message, or 0 before the first
// one. Skipped messages have no consumer sequence.
func (c *Consumer) Delivered() uint64 { return c.delivered }

// SetTraps changes the traps from now on.
func (s *Stream) SetTraps(change func(*Traps)) { change(&s.opts.Traps) }

// CaughtUp reports whether the consumer's replica has applied everything.
func (c *Consumer) CaughtUp() bool { return !c.behind }
