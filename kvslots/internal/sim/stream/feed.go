package stream

// Republished returns the messages that were stored since the last call, in order: the
// leader republishes each one before it acknowledges it.
func (s *Stream) Republished() []Stored {
	messages := s.republished
	s.republished = nil
	return messages
}
