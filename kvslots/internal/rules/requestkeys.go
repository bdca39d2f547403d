package rules

import (
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// A request key names a borrow, so that its caller can repeat it when an answer is lost. The
// slots of a pool that were claimed with a key are found by it. Only one of them may be a
// lease: a claim is excluded while another live slot has its key.

func (r *requests) add(s *Slot) {
	if key := s.Value.Request; s.Taken && !key.IsZero() {
		if *r == nil {
			*r = requests{}
		}
		(*r)[key] = append((*r)[key], s)
	}
}

func (r *requests) drop(s *Slot) {
	key := s.Value.Request
	if list := deleteFrom((*r)[key], s); len(list) > 0 {
		(*r)[key] = list
	} else if delete(*r, key); len(*r) == 0 {
		*r = nil
	}
}

// Requested returns the live slot of a request key, or nil. If there are several, it prefers
// one that its own peer has granted, or may grant.
func (p *Pool) Requested(key entry.Hash) *Slot {
	if p == nil || key.IsZero() {
		return nil
	}
	var found *Slot
	for _, s := range p.requests[key] {
		if s.Live() && (found == nil || found.void && !s.void) {
			found = s
		}
	}
	return found
}

// PlaceOf returns the ticket that stands in the line for a request key, or nil.
func (p *Pool) PlaceOf(key entry.Hash) *Ticket {
	if p == nil || key.IsZero() {
		return nil
	}
	if t := p.places[key]; t != nil && t.Stands() {
		return t
	}
	return nil
}

// repeats reports whether another live slot has the request key of a slot.
func (p *Pool) repeats(s *Slot) bool {
	return !s.Value.Request.IsZero() && slices.ContainsFunc(p.requests[s.Value.Request], func(o *Slot) bool {
		return o != s && o.Live()
	})
}

// Left returns how much of a lease's time may be left. No answer has promised more, as far as this
// peer knows.
func (s *Slot) Left(now Instant) time.Duration {
	ttl := s.Value.TTL.Duration()
	return min(ttl, max(ttl-now.Sub(s.seen), s.Ends.Sub(now)-Slack))
}
