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

// slotEntry is what stands under a slot's key.
type slotEntry struct {
	subject  string
	revision uint64
	header   nats.Header
	jid      string
}

// readRequest asks for one entry, by either.
type readRequest struct {
	Sequence      uint64 `json:"seq,omitempty"`
	LastBySubject string `json:"last_by_subj,omitempty"`
}

// read asks the stream's leader. A direct get, which the client library would
// send, may be answered by a replica that lags. It returns kvslots.ErrNotHeld where
// there is no entry.
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

// remove takes an entry out of the stream, leaving no marker: a marker would
// keep those out who know nothing but "revision 0".
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
		if time.Since(began) > patience || errors.Is(err, errRefused) {
			return false, fmt.Errorf("%w: %w", kvslots.ErrUnavailable, err)
		}
		pauseFor(ctx, pause)
	}
}

// purgeUpTo removes what a subject holds at a revision or before. With history
// 1 that is one entry at most; and because of the bound, whoever has taken the
// slot since keeps it. (The client library's Purge does not say what was removed.)
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

// request asks the stream's leader something, once.
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
