package events

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/clock"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	keepAlive = 15 * time.Second // Config.KeepAlive when it is 0

	// gather is the least time between two writes of events, so that a burst takes few.
	gather = 50 * time.Millisecond

	writeTimeout = 10 * time.Second // Config.WriteTimeout when it is 0

	// retryLeast and retrySpread say how long clients wait before they reconnect, which not all
	// should do at once after their gateway has gone.
	retryLeast, retrySpread = time.Second, 2 * time.Second

	// maxUnsent is how many bytes this kernel may keep for a client whose kernel takes no more. By
	// itself it keeps megabytes, so that a write to a client that does not read returns for long.
	maxUnsent = 32 << 10

	// maxUnread is how many bytes more are written to a client whose kernel keeps so many that the
	// client has not read: none. Its buffer may have megabytes, too.
	maxUnread = 256 << 10

	// maxKept is the size of a buffer that is kept for the next write, in bytes.
	maxKept = 16 << 10
)

type stream struct {
	dialect *Dialect
	filter  filter
	watcher kvslots.EventReader
	w       http.ResponseWriter
	control *http.ResponseController
	r       *http.Request
	buffer  []byte
	widest  int    // jsonhttp.ReceiveWindow at its widest
	id      uint64 // the last one that was sent
}

func header(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx passes the events on at once
}

// run sends events until the client hangs up, reads too slowly, or the gateway stops.
func (s *stream) run() {
	ctx, end := s.dialect.lending.UntilStop(s.r.Context())
	defer end()
	jsonhttp.SetWriteBuffer(s.r, maxUnsent)
	header(s.w)
	s.buffer = append(s.buffer, "retry: "+strconv.FormatInt((retryLeast+rand.N(retrySpread)).Milliseconds(), 10)+"\n\n"...)
	if s.send() != nil {
		return
	}
	for {
		err := s.next(ctx)
		if err == nil {
			err = s.untilRead(ctx)
		}
		if err == nil {
			err = s.send()
		}
		if err == nil && !clock.Sleep(ctx, gather) {
			err = context.Cause(ctx)
		}
		if err != nil {
			s.end(err)
			return
		}
	}
}

// next waits for events, and puts them into the buffer, or a comment if there are none.
func (s *stream) next(ctx context.Context) error {
	within, cancel := context.WithTimeoutCause(ctx, s.dialect.keepAlive, errQuiet)
	defer cancel()
	for len(s.buffer) == 0 {
		events, err := s.watcher.Next(within)
		switch {
		case errors.Is(err, errQuiet):
			s.buffer = append(s.buffer, ":\n"...)
			s.putID(s.watcher.ID()) // so that a client of a quiet pool can resume for as long as one of a busy pool
			s.buffer = append(s.buffer, '\n')
		case err != nil:
			return err
		default:
			s.put(events)
		}
	}
	return nil
}

var errQuiet = errors.New("no events")

// put puts the events that the client asks for into the buffer. The last one of an ID has it, so
// that no client goes on in the middle of what happened at once.
func (s *stream) put(events []kvslots.Event) {
	var last *kvslots.Event
	for i := range events {
		e := &events[i]
		if !s.filter.matches(e) {
			continue
		}
		if last != nil {
			s.putEvent(last, last.ID != e.ID)
		}
		last = e
	}
	if last != nil {
		s.putEvent(last, true)
	}
}

func (s *stream) putEvent(e *kvslots.Event, withID bool) {
	if withID {
		s.putID(e.ID)
	}
	s.buffer = append(append(append(s.buffer, "data: "...), e.Encoded(encode)...), "\n\n"...)
	s.dialect.sent.Add(1)
	if e.Type == kvslots.EventStartsOver {
		s.dialect.resets.Add(1)
	}
}

func encode(e *kvslots.Event) []byte {
	body, _ := wire.Encode(wire.NewEvent(e)) // does not fail for an Event
	return body
}

func (s *stream) putID(id uint64) {
	if id != 0 && id != s.id {
		s.id = id
		s.buffer = append(strconv.AppendUint(append(s.buffer, "id: "...), id, 10), '\n')
	}
}

// untilRead waits until the client's kernel keeps no more than maxUnread. The answer to a comment says how much that
// is: a kernel that has room does not say by itself that its client has read.
func (s *stream) untilRead(ctx context.Context) error {
	for end := time.Now().Add(s.dialect.writeTimeout); s.unread() > maxUnread; {
		if time.Now().After(end) {
			_ = s.control.SetWriteDeadline(end) // so that the connection ends with the stream
			return os.ErrDeadlineExceeded
		}
		if err := s.write([]byte(":\n\n")); err != nil {
			return err
		}
		if !clock.Sleep(ctx, gather) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// unread returns how many bytes the client's kernel keeps that the client has not read, as far as its window has shrunk.
func (s *stream) unread() int {
	window := jsonhttp.ReceiveWindow(s.r)
	s.widest = max(s.widest, window)
	return s.widest - window
}

// write writes and flushes. The deadline is for this write only: over HTTP/2 one that passes ends
// the stream, even if nothing is being written.
func (s *stream) write(text []byte) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(s.dialect.writeTimeout)) // fails only for the ResponseWriters of tests
	_, err := s.w.Write(text)
	if err == nil {
		err = s.control.Flush()
	}
	_ = s.control.SetWriteDeadline(time.Time{})
	return err
}

// send writes the buffer.
func (s *stream) send() error {
	err := s.write(s.buffer)
	if s.buffer = s.buffer[:0]; cap(s.buffer) > maxKept {
		s.buffer = nil
	}
	return err
}

// end ends the stream, as far as its client still reads.
func (s *stream) end(why error) {
	switch {
	case errors.Is(why, wire.ErrDraining), errors.Is(why, kvslots.ErrClosed):
		s.buffer = append(s.buffer[:0], ": the gateway stops\n\n"...)
		_ = s.send()
	case errors.Is(why, os.ErrDeadlineExceeded):
		s.dialect.cut.Add(1)
		ops.TraceOf(s.r.Header.Get).Log(s.dialect.log, slog.LevelDebug, "a stream of events was cut: its client reads too slowly")
	}
}
