package cosmo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots"
)

// slotEntry is the entry under a slot's key.
type slotEntry struct {
	subject  string
	revision uint64
	header   nats.Header
	jid      string
}

// readRequest asks for one entry, by one of its fields.
type readRequest struct {
	Sequence      uint64 `json:"seq,omitempty"`
	LastBySubject string `json:"last_by_subj,omitempty"`
}

// read reads an entry from the stream's leader, or returns kvslots.ErrNotHeld if there
// is none. It does not use a direct get, as the client library would: a replica that
// lags may answer that.
func (l *Limiter) read(ctx context.Context, what readRequest) (slotEntry, error) {
	var answer struct {
		Message struct {
			Subject  string `json:"subject"`
			Sequence uint64 `json:"seq"`
			Header   []byte `json:"hdrs"`
			Data     []byte `json:"data"`
		} `json:"message"`
		Error *jetstream.APIError `json:"error"`
	}
	if err := l.request(ctx, "MSG.GET", what, &answer); err != nil {
		return slotEntry{}, err
	}
	if answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound {
		return slotEntry{}, kvslots.ErrNotHeld
	}
	if answer.Error != nil {
		return slotEntry{}, fmt.Errorf("%w: %w", kvslots.ErrUnavailable, answer.Error)
	}
	found := answer.Message
	e := slotEntry{subject: found.Subject, revision: found.Sequence, jid: string(found.Data)}
	var err error
	if len(found.Header) > 0 {
		e.header, err = nats.DecodeHeadersMsg(found.Header)
	}
	return e, err
}

// remove removes an entry from the stream without leaving a marker: a marker would
// make every compare-and-swap on revision 0 fail.
func (l *Limiter) remove(ctx context.Context, slot string, revision uint64) (bool, error) {
	began := time.Now()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		if err := context.Cause(ctx); err != nil {
			return false, err
		}
		removed, err := l.purgeUpTo(ctx, l.prefix+slot, revision)
		if err == nil {
			return removed, nil
		}
		if time.Since(began) > retryTimeout || errors.Is(err, errRefused) {
			return false, fmt.Errorf("%w: %w", kvslots.ErrUnavailable, err)
		}
		pauseFor(ctx, pause)
	}
}

// purgeUpTo removes the entry of a subject if its revision is at most the given one, so
// that it never removes a later acquisition. It reports whether it removed an entry,
// which the client library's Purge does not.
func (l *Limiter) purgeUpTo(ctx context.Context, subject string, revision uint64) (bool, error) {
	var answer struct {
		Purged uint64              `json:"purged"`
		Error  *jetstream.APIError `json:"error"`
	}
	bounded := jetstream.StreamPurgeRequest{Subject: subject, Sequence: revision + 1}
	if err := l.request(ctx, "PURGE", bounded, &answer); err != nil {
		return false, err
	}
	if answer.Error != nil && answer.Error.Code != 503 {
		return false, fmt.Errorf("%w: %w", errRefused, answer.Error)
	}
	if answer.Error != nil {
		return false, answer.Error
	}
	return answer.Purged > 0, nil
}

// request sends one request to the stream's leader.
func (l *Limiter) request(ctx context.Context, verb string, what, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	body, err := json.Marshal(what)
	if err != nil {
		return err
	}
	reply, err := l.js.Conn().RequestWithContext(ctx, "$JS.API.STREAM."+verb+"."+l.stream, body)
	if err != nil {
		return err
	}
	return json.Unmarshal(reply.Data, answer)
}
