package cosmo

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// Held is a slot that a job holds.
type Held struct {
	Slot
	JobID    string
	Age      time.Duration // since the acquisition, on the clock of NATS
	Duration time.Duration // as in Acquire; 0 if the entry has no TTL
}

// Holder returns the current acquisition of a slot, which can be released, and its jid.
// The acquisition may end at any time, even before Holder returns.
//
// The errors are kvslots.ErrNotHeld if the slot is free, ErrUnavailable, a *RangeError,
// and the cause of ctx.
func (l *Limiter) Holder(ctx context.Context, slotKey string) (Slot, string, error) {
	if _, err := parseSlotKey(slotKey); err != nil {
		return Slot{}, "", err
	}
	found, err := l.read(ctx, readRequest{LastBySubject: l.prefix + slotKey})
	if err != nil && !errors.Is(err, kvslots.ErrNotHeld) {
		return Slot{}, "", unread(ctx, err)
	}
	held, ok := l.parse(found)
	if err != nil || !ok {
		return Slot{}, "", kvslots.ErrNotHeld
	}
	return held.Slot, held.JobID, nil
}

// Held iterates over the slots in the bucket that are held, in the order of their
// acquisition. It does not see slots that are acquired during the iteration. It sends a
// request for each entry in the bucket.
//
// It ends after the first error: kvslots.ErrUnavailable, or the cause of ctx.
func (l *Limiter) Held(ctx context.Context) iter.Seq2[Held, error] {
	return func(yield func(Held, error) bool) {
		stream, err := l.js.Stream(ctx, l.stream)
		if err != nil {
			yield(Held{}, unread(ctx, err))
			return
		}
		info := stream.CachedInfo()
		for next := info.State.FirstSeq; next <= info.State.LastSeq; {
			found, err := l.read(ctx, readRequest{Sequence: next, NextBySubject: l.prefix + ">"})
			switch {
			case errors.Is(err, kvslots.ErrNotHeld) || err == nil && found.revision > info.State.LastSeq:
				return
			case err != nil:
				yield(Held{}, unread(ctx, err))
				return
			}
			next = found.revision + 1
			held, ok := l.parse(found)
			held.Age = max(info.TimeStamp.Sub(found.written), 0)
			if ok && !yield(held, nil) {
				return
			}
		}
	}
}

// parse returns the acquisition that wrote an entry. ok is false for a marker, and for an
// entry that is not of a slot.
func (l *Limiter) parse(found slotEntry) (held Held, ok bool) {
	slot, ok := strings.CutPrefix(found.subject, l.prefix)
	number, err := parseSlotKey(slot)
	if !ok || err != nil || isMarker(found.header) {
		return Held{}, false
	}
	duration, _ := time.ParseDuration(found.header.Get(entry.HeaderTTL))
	return Held{Slot: Slot{slot, number, found.revision, found.id()}, JobID: found.jid, Duration: duration}, true
}

func unread(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", kvslots.ErrUnavailable, err)
}
