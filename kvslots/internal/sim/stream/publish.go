package stream

import (
	"cmp"
	"strconv"
	"strings"
	"time"
)

// Codes of refusals. All but CodeNoResponders are JetStream's error codes.
const (
	CodeNoResponders = 503 // the stream does not exist or has no leader; the message was not written
	CodeConflict     = 10071
	CodeInFlight     = 10164 // another write to the key is in flight
	CodeInvalidTTL   = 10165
)

type Ack struct {
	Sequence    uint64 // of the stored message; 0 if none was stored
	Code        int    // reason of a refusal; 0 if the message was stored
	Description string // the server's text

	// Revision is, with CodeConflict, the revision that the description contains: the
	// key's, or the stream's last sequence if the write expected that.
	Revision uint64

	// Unanswered reports that the server does not answer. The message was not stored.
	Unanswered bool
}

func conflict(revision uint64) Ack {
	return Ack{Code: CodeConflict, Description: "wrong last sequence: " + strconv.FormatUint(revision, 10), Revision: revision}
}

var (
	inFlight   = Ack{Code: CodeInFlight, Description: "wrong last sequence"}
	invalidTTL = Ack{Code: CodeInvalidTTL, Description: "invalid per-message TTL"}
)

// Publish passes a message to the stream's leader and returns its answer.
func (s *Stream) Publish(m Message, now time.Time) Ack {
	s.Advance(now)
	if !s.exists {
		return Ack{Code: CodeNoResponders}
	}
	if s.leaderless {
		s.met[NoLeader]++
		if s.chance(s.opts.Traps.SilentGap) {
			s.met[Unanswered]++
			return Ack{Unanswered: true}
		}
		return Ack{Code: CodeNoResponders}
	}
	ttl, valid := s.ttl(m.Header.TTL)
	if refusal := s.refusal(m, valid); refusal.Code != 0 {
		return refusal
	}
	return Ack{Sequence: s.store(m.Key, m.Header, m.Data, ttl)}
}

// refusal returns the first reason to refuse a message. A single server checks the key
// first and the TTL last, the leader of a replicated stream does the reverse.
func (s *Stream) refusal(m Message, validTTL bool) Ack {
	wrongTTL := Ack{}
	if !validTTL {
		wrongTTL = invalidTTL
	}
	if s.replicated() {
		return cmp.Or(wrongTTL, s.lastRefusal(m), s.keyRefusal(m))
	}
	return cmp.Or(s.keyRefusal(m), s.lastRefusal(m), wrongTTL)
}

func (s *Stream) lastRefusal(m Message) Ack {
	if m.Header.ExpectedLast != nil && *m.Header.ExpectedLast != s.last {
		return conflict(s.last)
	}
	return Ack{}
}

func (s *Stream) keyRefusal(m Message) Ack {
	if m.Header.Expected == nil {
		return Ack{}
	}
	if s.inFlight(m.Key) {
		s.met[InFlight]++
		return inFlight
	}
	if revision := s.current[m.Key]; revision != *m.Header.Expected {
		return conflict(revision)
	}
	return Ack{}
}

// inFlight reports whether the leader of a replicated stream considers another write to
// the key in flight, which it has not applied yet.
func (s *Stream) inFlight(key string) bool {
	if !s.replicated() {
		return false
	}
	if sequence, ok := s.current[key]; ok && s.now.Sub(s.log.at(sequence).written) < s.opts.Traps.InFlightWindow {
		return true
	}
	return s.chance(s.opts.Traps.InFlightRate)
}

// ttl parses a Nats-TTL. 0 means forever.
func (s *Stream) ttl(text string) (ttl time.Duration, ok bool) {
	if text == "" || strings.EqualFold(text, "never") {
		return 0, true
	}
	ttl, err := time.ParseDuration(text)
	if err != nil {
		seconds, err := strconv.ParseUint(text, 10, 31)
		return time.Duration(seconds) * time.Second, err == nil
	}
	if !s.opts.Traps.TTLWholeSeconds {
		return ttl, ttl > 0
	}
	if whole := ttl.Truncate(time.Second); whole != ttl && whole > 0 {
		s.met[TTLCut]++
		return whole, true
	}
	return ttl, ttl >= time.Second
}
