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
	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

const (
	// answerTimeout is how long one request may go unanswered.
	answerTimeout = 2 * time.Second

	// patience is how long a request is repeated for.
	patience = 6 * time.Second

	// Error codes of JetStream. codeInFlight says that some write to the
	// key is in flight, codeDuplicate that a message with the same id is.
	codeConflict  = 10071
	codeInFlight  = 10164
	codeDuplicate = 10158
)

// What can become of a write that was not acknowledged.
var (
	errConflict = errors.New("another revision is there")      // certainly not written
	errInFlight = errors.New("another write is in flight")     // certainly not written
	errNotSent  = errors.New("no server took the write")       // certainly not written
	errRefused  = errors.New("the stream refused")             // certainly not written
	errUnknown  = errors.New("the write was not acknowledged") // written, not written, or still to be written
)

// claim writes a slot where nothing is. When something is there, it returns
// errConflict and that entry's revision.
//
// The write carries an id of its own. So when it went unanswered it is sent
// again, and the answer to that tells what became of it: the server knows the
// id, or the entry in the way bears it.
func (l *Limiter) claim(ctx context.Context, slot, jid string, duration time.Duration) (uint64, error) {
	m := nats.NewMsg(l.prefix + slot)
	m.Data = []byte(jid)
	m.Header.Set(entry.HeaderExpected, "0")
	m.Header.Set(entry.HeaderTTL, entry.FormatTTL(duration))
	m.Header.Set(nats.MsgIdHdr, uuid.NewString())

	began, unsure := time.Now(), false
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		if err := context.Cause(ctx); err != nil {
			l.withdraw(ctx, m, unsure)
			return 0, err
		}
		revision, err := l.write(ctx, m)
		unsure = unsure || errors.Is(err, errUnknown)
		switch {
		case err == nil && time.Since(began) < duration:
			return revision, nil
		case err == nil: // too late: it is about to end, or has
			_, _ = l.remove(ctx, slot, revision)
			return 0, fmt.Errorf("%w: no answer within %s", kvslots.ErrUnavailable, duration)
		case errors.Is(err, errConflict) && !unsure:
			return revision, errConflict
		case errors.Is(err, errConflict):
			if ours, known := l.isOurs(ctx, m, revision); ours && time.Since(began) < duration {
				return revision, nil
			} else if known && !ours {
				return revision, errConflict
			}
		case errors.Is(err, errRefused):
			return 0, fmt.Errorf("%w: %w", kvslots.ErrUnavailable, err)
		}
		if time.Since(began) > min(patience, duration) {
			l.withdraw(ctx, m, unsure)
			return 0, fmt.Errorf("%w: %w", kvslots.ErrUnavailable, err)
		}
		pauseFor(ctx, pause)
	}
}

// write sends a claim once. It waits for the answer even when ctx ends: what
// nobody waits for may have been written.
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
		return 0, fmt.Errorf("%w: %w", errNotSent, err)
	case errors.Is(err, nats.ErrConnectionClosed):
		return 0, fmt.Errorf("%w: %w", errRefused, err)
	case !ok:
		return 0, fmt.Errorf("%w: %w", errUnknown, err)
	case refusal.ErrorCode == codeConflict:
		_, text, _ := strings.Cut(refusal.Description, ": ")
		revision, _ := strconv.ParseUint(text, 10, 64)
		return revision, errConflict
	case refusal.ErrorCode == codeInFlight, refusal.ErrorCode == codeDuplicate, refusal.Code == 503:
		// Not "taken": on a replicated stream somebody's write, perhaps a
		// refused one, is under way.
		return 0, fmt.Errorf("%w: %w", errInFlight, err)
	}
	return 0, fmt.Errorf("%w: %w", errRefused, err)
}

// isOurs tells whether the entry at a revision is what an earlier, unanswered
// sending of m wrote.
func (l *Limiter) isOurs(ctx context.Context, m *nats.Msg, revision uint64) (ours, known bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	there, err := l.read(ctx, readRequest{Sequence: revision})
	if err != nil {
		return false, false
	}
	return there.header.Get(nats.MsgIdHdr) == m.Header.Get(nats.MsgIdHdr), true
}

// withdraw removes a claim that may have been written and that nobody will be
// told of. It tries once; what it cannot do, the TTL does.
func (l *Limiter) withdraw(ctx context.Context, m *nats.Msg, unsure bool) {
	if !unsure {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	there, err := l.read(ctx, readRequest{LastBySubject: m.Subject})
	if err == nil && there.header.Get(nats.MsgIdHdr) == m.Header.Get(nats.MsgIdHdr) {
		_, _ = l.purgeUpTo(ctx, m.Subject, there.revision)
	}
}

// acquireMarked is the second look, when all slots seem taken: behind some there
// may be a mere marker. Cosmo's earlier versions released by writing one, for
// ever; a bucket with limit markers leaves them too.
func (l *Limiter) acquireMarked(ctx context.Context, taken []Slot, jid string, duration time.Duration) (Slot, error) {
	for _, slot := range taken {
		if err := context.Cause(ctx); err != nil {
			return Slot{}, err
		}
		there, err := l.read(ctx, readRequest{Sequence: slot.Revision})
		if err != nil || there.subject != l.prefix+slot.Key || !isMarker(there.header) {
			continue
		}
		if _, err := l.remove(ctx, slot.Key, slot.Revision); err != nil {
			return Slot{}, err
		}
		revision, err := l.claim(ctx, slot.Key, jid, duration)
		if err == nil {
			slot.Revision = revision
			return slot, nil
		}
		if !errors.Is(err, errConflict) {
			return Slot{}, err
		}
	}
	return Slot{}, kvslots.ErrNoSlot
}

// isMarker reports whether the headers are those of a marker, which says that the
// key is free: a client's, or the server's own.
func isMarker(h nats.Header) bool {
	return h.Get(entry.HeaderOperation) != "" || h.Get(entry.HeaderReason) != ""
}

func pauseFor(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
