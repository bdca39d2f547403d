package stream

// Republished returns the messages that were stored since the last call, in order: the
// leader republishes each one before it acknowledges it. A stream without a feed has none.
func (s *Stream) Republished() []Stored {
	messages := s.republished
	s.republished = nil
	return messages
}

// HasFeed reports whether messages are republished.
func (s *Stream) HasFeed() bool { return s.feeds }

// AddFeed updates a stream that was created without a feed: messages are republished from
// now on.
func (s *Stream) AddFeed() { s.feeds = true }
