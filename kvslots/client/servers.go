package client

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client/internal/transport"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const connectTimeout = 5 * time.Second

// servers sends each request to several servers in turn, until one answers. It begins with
// the one that has answered last.
type servers struct {
	all   []transport.Transport
	first atomic.Int64 // index in all, modulo its length
}

func (s *servers) Ask(ctx context.Context, r request, read func(answer) error) error {
	first, n := s.first.Load(), int64(len(s.all))
	var failed []error
	for i := range n {
		err := s.askOne(ctx, s.all[(first+i)%n], r, read, n-i)
		if errors.Is(err, ErrTwoStores) { // the next request begins with the server that has answered before
			return err
		}
		if !elsewhere(err) {
			s.first.CompareAndSwap(first, first+i)
			return err
		}
		if ctx.Err() != nil { // the next request begins with the next server
			s.first.CompareAndSwap(first, first+i+1)
			return err
		}
		failed = append(failed, err)
	}
	return failure(failed)
}

// askOne asks a server. If others are left to be asked, it has its share of the time that is not the wait.
func (s *servers) askOne(ctx context.Context, server transport.Transport, r request, read func(answer) error, left int64) error {
	if end, ok := ctx.Deadline(); ok && left > 1 {
		wait := min(r.Wait, time.Until(end)/2)
		within := wait + (time.Until(end)-wait)/time.Duration(left)
		turn, cancel := context.WithTimeoutCause(ctx, within, ErrAnswerTimeout)
		defer cancel()
		ctx = turn
	}
	return server.Ask(ctx, r, read)
}

// elsewhere reports whether another server may answer a request that has failed with err.
func elsewhere(err error) bool {
	if refused, ok := errors.AsType[*wire.Refusal](err); ok {
		known := refused.Err != nil && !errors.Is(refused.Err, kvslots.ErrUnavailable)
		return Temporary(err) && refused.Status >= http.StatusInternalServerError && (!known || refused.RetryAfter > 0)
	}
	return err != nil && Temporary(err)
}

// failure returns the error of a request that all servers have failed: a refusal, since it says
// when to try again, or what became of the request at each server.
func failure(failed []error) error {
	for _, err := range failed {
		if _, ok := errors.AsType[*wire.Refusal](err); ok {
			return err
		}
	}
	return &Unanswered{failures(failed)}
}

// failures are the errors of one request at several servers.
type failures []error

func (f failures) Error() string {
	var texts []string
	for _, err := range f {
		if !slices.Contains(texts, err.Error()) {
			texts = append(texts, err.Error())
		}
	}
	return strings.Join(texts, "; ")
}

func (f failures) Unwrap() []error { return f }

func (s *servers) Cancel([]string) bool { return false } // all are over HTTP

func (s *servers) Close() {
	for _, server := range s.all {
		server.Close()
	}
}
