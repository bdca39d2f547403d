package cosmo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/clock"
	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

const (
	// answerTimeout bounds the wait for the answer to one request.
	answerTimeout = 2 * time.Second

	// retryTimeout bounds the time for which a request is repeated.
	retryTimeout = 6 * time.Second

	// Error codes of JetStream. codeInFlight means that another write to the key
	// is in flight, codeDuplicate that a message with the same id is in flight.
	codeConflict  = 10071
	codeInFlight  = 10164
	codeDuplicate = 10158
)

// Errors of a write. Only after errUnknown may the entry have been written, or be written
// later. After an error that is none of these the write had no effect, and is repeated.
var (
	errConflict = errors.New("the key has another revision")
	errRefused  = errors.New("the stream refused the request")
	errUnknown  = errors.New("the write was not acknowledged")
)

// claim writes an entry for a slot if its key has none, and returns the slot with the
// entry's revision and id. If the key has an entry, claim returns errConflict and the slot
// with the revision of that entry.
//
// Each write has a unique message id. When a write is not answered, claim sends it
// again. The answer shows what happened to the first one: the server recognizes the
// id, or the conflicting entry has it.
func (l *Limiter) claim(ctx context.Context, slot Slot, jid string, duration time.Duration) (Slot, error) {
	claimed := Slot{Key: slot.Key, Number: slot.Number, ID: uuid.NewString()}
	m := nats.NewMsg(l.prefix + slot.Key)
	m.Data = []byte(jid)
	m.Header.Set(entry.HeaderExpected, "0")
	m.Header.Set(entry.HeaderTTL, entry.FormatTTL(duration))
	m.Header.Set(nats.MsgIdHdr, claimed.ID)

	began, unsure := time.Now(), false
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		if err := context.Cause(ctx); err != nil {
			l.withdraw(ctx, m, unsure)
			return Slot{}, err
		}
		revision, err := l.write(ctx, m)
		slot.Revision, claimed.Revision = revision, revision
		unsure = unsure || errors.Is(err, errUnknown)
		switch {
		case err == nil && time.Since(began) < duration:
			return claimed, nil
		case err == nil: // too late: the slot's duration is over
			_, _ = l.remove(ctx, claimed)
			return Slot{}, fmt.Errorf("%w: no answer within %s", kvslots.ErrUnavailable, duration)
		case errors.Is(err, errConflict) && !unsure:
			return slot, errConflict
		case errors.Is(err, errConflict):
			if ours, known := l.isOurs(ctx, m, revision); ours && time.Since(began) < duration {
				return claimed, nil
			} else if known && !ours {
				return slot, errConflict
			}
		case errors.Is(err, errRefused):
			return Slot{}, fmt.Errorf("%w: %w", kvslots.ErrUnavailable, err)
		}
		if time.Since(began) > min(retryTimeout, duration) {
			l.withdraw(ctx, m, unsure)
			return Slot{}, fmt.Errorf("%w: %w", kvslots.ErrUnavailable, err)
		}
		clock.Sleep(ctx, pause)
	}
}

// write sends a claim once. It waits for the answer even if ctx ends, since the outcome
// of a write without an answer is unknown.
func (l *Limiter) write(ctx context.Context, m *nats.Msg) (uint64, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	ack, err := l.js.PublishMsg(ctx, m)
	if err == nil {
		return ack.Sequence, nil
	}
	refusal, ok := errors.AsType[*jetstream.APIError](err)
	switch {
	case errors.Is(err, jetstream.ErrNoStreamResponse): // no leader
		return 0, fmt.Errorf("no server accepted the write: %w", err)
	case errors.Is(err, nats.ErrConnectionClosed):
		return 0, fmt.Errorf("%w: %w", errRefused, err)
	case !ok:
		return 0, fmt.Errorf("%w: %w", errUnknown, err)
	case refusal.ErrorCode == codeConflict:
		_, text, _ := strings.Cut(refusal.Description, ": ")
		revision, _ := strconv.ParseUint(text, 10, 64)
		return revision, errConflict
	case refusal.ErrorCode == codeInFlight, refusal.ErrorCode == codeDuplicate, refusal.Code == 503:
		// The slot may be free: on a replicated stream some worker's write is in
		// flight, and may still be refused.
		return 0, fmt.Errorf("another write is in flight: %w", err)
	}
	return 0, fmt.Errorf("%w: %w", errRefused, err)
}

// isOurs reports whether an earlier, unanswered attempt to send m wrote the entry at
// revision. known is false if that could not be found out.
func (l *Limiter) isOurs(ctx context.Context, m *nats.Msg, revision uint64) (ours, known bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	found, err := l.read(ctx, readRequest{Sequence: revision})
	if err != nil {
		return false, false
	}
	return found.header.Get(nats.MsgIdHdr) == m.Header.Get(nats.MsgIdHdr), true
}

// withdraw removes a claim with unknown outcome whose caller gets an error. It tries
// once. If that fails, the TTL removes the claim.
func (l *Limiter) withdraw(ctx context.Context, m *nats.Msg, unsure bool) {
	if !unsure {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	found, err := l.read(ctx, readRequest{LastBySubject: m.Subject})
	if err == nil && found.header.Get(nats.MsgIdHdr) == m.Header.Get(nats.MsgIdHdr) {
		_, _ = l.purgeUpTo(ctx, m.Subject, found.revision)
	}
}

// acquireMarked tries all slots again when each has an entry: an entry may be a marker,
// which means that the slot is free. Earlier versions of Cosmo released slots by writing
// permanent markers, and a server writes markers in a bucket with limit markers.
func (l *Limiter) acquireMarked(ctx context.Context, taken []Slot, jid string, duration time.Duration) (Slot, error) {
	for _, slot := range taken {
		if err := context.Cause(ctx); err != nil {
			return Slot{}, err
		}
		found, err := l.read(ctx, readRequest{Sequence: slot.Revision})
		if err != nil || found.subject != l.prefix+slot.Key || !isMarker(found.header) {
			continue
		}
		if _, err := l.remove(ctx, slot); err != nil {
			return Slot{}, err
		}
		claimed, err := l.claim(ctx, slot, jid, duration)
		if !errors.Is(err, errConflict) {
			return claimed, err
		}
	}
	return Slot{}, kvslots.ErrNoSlot
}

// isMarker reports whether the headers are those of a marker, written by a client or
// by the server.
func isMarker(h nats.Header) bool {
	return h.Get(entry.HeaderOperation) != "" || h.Get(entry.HeaderReason) != ""
}
