package cosmo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/clock"
)

type slotEntry struct {
	subject  string
	revision uint64
	header   nats.Header
	jid      string
	written  time.Time // on the clock of NATS
}

// id returns Slot.ID: the message id, or the time of an entry without one, as Ruby workers
// write them.
func (e slotEntry) id() string {
	return cmp.Or(e.header.Get(nats.MsgIdHdr), e.written.Format(time.RFC3339Nano))
}

func (e slotEntry) isOf(slot Slot) bool {
	return e.revision == slot.Revision && (slot.ID == "" || slot.ID == e.id())
}

// readRequest asks for the entry with a sequence, the last entry of a subject, or the first
// entry from a sequence on whose subject matches.
type readRequest struct {
	Sequence      uint64 `json:"seq,omitempty"`
	LastBySubject string `json:"last_by_subj,omitempty"`
	NextBySubject string `json:"next_by_subj,omitempty"`
}

// read reads an entry from the stream's leader, or returns kvslots.ErrNotHeld if there
// is none. It does not use a direct get, as the client library would: a replica that
// lags may answer that.
func (l *Limiter) read(ctx context.Context, what readRequest) (slotEntry, error) {
	var answer struct {
		Message struct {
			Subject  string    `json:"subject"`
			Sequence uint64    `json:"seq"`
			Header   []byte    `json:"hdrs"`
			Data     []byte    `json:"data"`
			Time     time.Time `json:"time"`
		} `json:"message"`
	}
	err := l.request(ctx, "MSG.GET", what, &answer)
	if refusal, ok := errors.AsType[*jetstream.APIError](err); ok && refusal.ErrorCode == jetstream.JSErrCodeMessageNotFound {
		return slotEntry{}, kvslots.ErrNotHeld
	}
	if err != nil {
		return slotEntry{}, err
	}
	found := answer.Message
	e := slotEntry{subject: found.Subject, revision: found.Sequence, jid: string(found.Data), written: found.Time}
	if len(found.Header) > 0 {
		e.header, err = nats.DecodeHeadersMsg(found.Header)
	}
	return e, err
}

// remove removes the entry of an acquisition from the stream without leaving a marker: a
// marker would make every compare-and-swap on revision 0 fail.
func (l *Limiter) remove(ctx context.Context, slot Slot) (bool, error) {
	began := time.Now()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		if err := context.Cause(ctx); err != nil {
			return false, err
		}
		removed, err := l.removeOnce(ctx, slot)
		if err == nil {
			return removed, nil
		}
		if time.Since(began) > retryTimeout || errors.Is(err, errRefused) {
			return false, fmt.Errorf("%w: %w", kvslots.ErrUnavailable, err)
		}
		clock.Sleep(ctx, pause)
	}
}

// removeOnce reads the entry before it purges: in a bucket that was created again, the
// entry of a later acquisition may have the same revision, or a lower one. It sends the
// purge even if it finds no entry, which a stale leader may answer.
func (l *Limiter) removeOnce(ctx context.Context, slot Slot) (bool, error) {
	subject := l.prefix + slot.Key
	found, err := l.read(ctx, readRequest{LastBySubject: subject})
	switch {
	case errors.Is(err, kvslots.ErrNotHeld):
	case err != nil:
		return false, err
	case !found.isOf(slot):
		return false, nil
	}
	return l.purgeUpTo(ctx, subject, slot.Revision)
}

// purgeUpTo removes the entry of a subject if its revision is at most the given one, so
// that it never removes a later acquisition. It reports whether it removed an entry,
// which the client library's Purge does not.
func (l *Limiter) purgeUpTo(ctx context.Context, subject string, revision uint64) (bool, error) {
	var answer struct {
		Purged uint64 `json:"purged"`
	}
	bounded := jetstream.StreamPurgeRequest{Subject: subject, Sequence: revision + 1}
	err := l.request(ctx, "PURGE", bounded, &answer)
	return answer.Purged > 0, err
}

// request sends one request to the stream's leader. The error contains a
// *jetstream.APIError if the leader refused the request, and errRefused unless the same
// request may succeed later.
func (l *Limiter) request(ctx context.Context, verb string, what, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	body, err := json.Marshal(what)
	if err != nil {
		return err
	}
	reply, err := l.js.Conn().RequestWithContext(ctx, "$JS.API.STREAM."+verb+"."+l.stream, body)
	if errors.Is(err, nats.ErrConnectionClosed) {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	if err != nil {
		return err
	}
	var refusal struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &refusal); err != nil {
		return err
	}
	switch {
	case refusal.Error == nil:
		return json.Unmarshal(reply.Data, answer)
	case refusal.Error.Code == 503:
		return refusal.Error
	}
	return fmt.Errorf("%w: %w", errRefused, refusal.Error)
}
