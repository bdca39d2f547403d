package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/clock"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	// eventSilence is how long a stream may be silent before it counts as lost: gateways send a
	// comment every 15 s.
	eventSilence = 45 * time.Second

	// eventRetry is the pause before a stream is opened again if the gateway has not named one,
	// and maxEventRetry the longest one after repeated failures.
	eventRetry, maxEventRetry = time.Second, 15 * time.Second

	maxEventLine = 64 << 10
)

// Watcher reads the events of the gateways. Only one goroutine may use it at a time.
type Watcher struct {
	client *Client
	query  string
	id     uint64

	body   io.Closer // of the open stream; nil: there is none
	cancel context.CancelFunc
	lines  *bufio.Scanner
	retry  time.Duration // what the gateway has named, or eventRetry
	failed int           // attempts in a row without an event or a comment
	again  time.Time     // when the stream may be opened again; zero: at once
}

// Watch is like Store.Watch. The Watcher opens a stream over HTTP when Next is called, and again
// when it is lost, also at another gateway. It sends hashes of pools, not their ids.
func (c *Client) Watch(after uint64, pools ...kvslots.PoolRef) kvslots.EventReader {
	query := url.Values{}
	for _, p := range pools {
		query.Add(wire.EventPool, p.Hash())
	}
	return &Watcher{client: c, query: query.Encode(), id: after, retry: eventRetry}
}

// Close ends the stream.
func (x *Watcher) Close() {
	if x.body != nil {
		x.cancel()
		_ = x.body.Close()
		x.body = nil
	}
}

// ID is like kvslots.Watcher.ID.
func (x *Watcher) ID() uint64 { return x.id }

// Next returns the next events, at least one, and blocks until there is one. It returns all events
// of an ID together. While no gateway answers, it tries again. Its errors are context.Cause(ctx), a
// *wire.Refusal that another attempt would not change, and errors.ErrUnsupported over NATS and if
// the server has none.
func (x *Watcher) Next(ctx context.Context) ([]kvslots.Event, error) {
	for {
		if err := x.open(ctx); err != nil {
			return nil, err
		}
		events, err := x.read(ctx)
		if err == nil {
			if len(events) > 0 {
				return events, nil
			}
			continue
		}
		x.Close()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		x.postpone(0)
	}
}

func (x *Watcher) open(ctx context.Context) error {
	for x.body == nil {
		if !clock.Sleep(ctx, time.Until(x.again)) {
			return context.Cause(ctx)
		}
		stream, cancel := context.WithCancel(context.WithoutCancel(ctx))
		stop := context.AfterFunc(ctx, cancel)
		limit := time.AfterFunc(eventSilence, cancel)
		response, err := x.client.gateways.Events(stream, x.query, x.id)
		limit.Stop()
		if stop(); err == nil {
			x.body, x.cancel, x.lines = response, cancel, bufio.NewScanner(response)
			x.lines.Buffer(nil, maxEventLine)
			return nil
		}
		late := stream.Err() != nil
		cancel()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !late && !Temporary(err) {
			return err
		}
		x.postpone(retryAfter(err))
	}
	return nil
}

// postpone sets when the stream may be opened again: after a pause that grows, at least after.
// Clients differ in it, so that they do not all come at once after a gateway has gone.
func (x *Watcher) postpone(after time.Duration) {
	x.failed++
	pause := min(x.retry<<min(x.failed-1, 4), max(maxEventRetry, x.retry))
	x.again = time.Now().Add(max(after, pause/2+rand.N(pause/2+1)))
}

// read reads the events up to the next ID. There are none if that is a position without an event.
// After an error what was read has no ID, and is sent again.
func (x *Watcher) read(ctx context.Context) (events []kvslots.Event, err error) {
	defer context.AfterFunc(ctx, x.cancel)()
	silence := time.AfterFunc(eventSilence, x.cancel)
	defer silence.Stop()
	id, data, size := uint64(0), "", 0
	for x.lines.Scan() {
		silence.Reset(eventSilence)
		if size += len(x.lines.Bytes()); size > maxAnswer {
			return nil, ErrNotUnderstood
		}
		name, value, _ := strings.Cut(x.lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			if id, err = strconv.ParseUint(value, 10, 64); err != nil {
				return nil, ErrNotUnderstood
			}
		case "retry":
			if ms, err := strconv.ParseUint(value, 10, 31); err == nil && ms > 0 {
				x.retry = time.Duration(ms) * time.Millisecond
			}
		case "data":
			data = value
		case "":
			if x.lines.Text() != "" { // a comment
				x.failed = 0
				continue
			}
			if data != "" {
				var sent wire.Event
				if json.Unmarshal([]byte(data), &sent) != nil {
					return nil, ErrNotUnderstood
				}
				if e, known := sent.Event(); known {
					events = append(events, e)
				}
				data, x.failed = "", 0
			}
			if id != 0 {
				x.id = id
				return events, nil
			}
			if len(events) > 0 && events[0].Type == kvslots.EventStartsOver { // of a gateway without an ID yet
				return events, nil
			}
		}
	}
	if err := x.lines.Err(); err != nil {
		return nil, err
	}
	return nil, io.EOF
}

// Events opens a stream of the events after an ID.
func (h *httpTransport) Events(ctx context.Context, query string, after uint64) (io.ReadCloser, error) {
	at := h.base + wire.EventsPath
	if query != "" {
		at += "?" + query
	}
	message, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, withoutURL(err)
	}
	message.Header.Set("Accept", "text/event-stream")
	if after != 0 {
		message.Header.Set(wire.LastEventIDHeader, strconv.FormatUint(after, 10))
	}
	if h.token != "" {
		message.Header.Set(wire.AuthorizationHeader, "Bearer "+h.token)
	}
	response, err := h.client.Do(message)
	if err != nil {
		return nil, notAnswered(ctx, message.URL.Scheme+"://"+message.URL.Host, err)
	}
	if err := h.see(response); err != nil {
		_ = response.Body.Close()
		return nil, err
	}
	if response.StatusCode == http.StatusOK && strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		return response.Body, nil
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		return nil, ErrNotUnderstood
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, notAnswered(ctx, message.URL.Scheme+"://"+message.URL.Host, err)
	}
	return nil, unsupportedIfUnknownPath(wire.NewRefusal(response.StatusCode, response.Header, body))
}

// Events opens a stream at the first server that has one, from the one on that has answered last.
func (s *servers) Events(ctx context.Context, query string, after uint64) (stream io.ReadCloser, err error) {
	first, n := s.first.Load(), int64(len(s.all))
	var failed []error
	for i := range n {
		stream, err = s.all[(first+i)%n].Events(ctx, query, after)
		if refused, ok := errors.AsType[*wire.Refusal](err); err == nil || ctx.Err() != nil || !elsewhere(err) && (!ok || refused.Status != http.StatusTooManyRequests) {
			s.first.CompareAndSwap(first, first+i)
			return stream, err
		}
		failed = append(failed, err)
	}
	return nil, failure(failed)
}
