package ops

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// Trace identifies a request in the logs of several programs.
type Trace struct {
	RequestID string // "" if unknown
	Parent    string // the header traceparent of W3C Trace Context; "" if unknown
}

// Log logs a line about the request, with its ids. It allocates nothing if the level is
// disabled, as it is for most requests.
func (t Trace) Log(log *slog.Logger, level slog.Level, message string, attrs ...slog.Attr) {
	ctx := context.Background()
	if !log.Enabled(ctx, level) {
		return
	}
	if t.RequestID != "" {
		attrs = append(attrs, slog.String("request_id", t.RequestID))
	}
	if t.Parent != "" {
		attrs = append(attrs, slog.String("trace_id", t.Parent[3:35]))
	}
	log.LogAttrs(ctx, level, message, attrs...)
}

// Milliseconds returns a time for a log line, whose field's name ends in _ms.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// AccessLevel returns the level of the log line of a request, by the status of its answer.
func AccessLevel(status int) slog.Level {
	if status >= http.StatusInternalServerError {
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// TraceOf returns the well-formed ids in a request's headers. get returns the value of a
// header. The result does not keep the headers in memory.
func TraceOf(get func(name string) string) (t Trace) {
	if id := get(wire.RequestIDHeader); requestIDForm.MatchString(id) {
		t.RequestID = strings.Clone(id)
	}
	if parent := get(wire.TraceHeader); isTraceparent(parent) {
		t.Parent = strings.Clone(parent)
	}
	return t
}

// NewTrace is TraceOf with a new id for a request without one.
func NewTrace(get func(name string) string) Trace {
	t := TraceOf(get)
	if t.RequestID == "" {
		t.RequestID = NewRequestID()
	}
	return t
}

// NewRequestID returns a random id of 16 digits. It is no secret.
func NewRequestID() string {
	var id [8]byte
	binary.NativeEndian.PutUint64(id[:], rand.Uint64())
	return hex.EncodeToString(id[:])
}

// requestIDForm matches the ids of requests that may be written to logs and headers.
var requestIDForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// traceparentForm matches headers traceparent of version 00 (W3C Trace Context, "traceparent
// Header Field Values").
var traceparentForm = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// isTraceparent reports whether text is a traceparent whose trace and parent are not all zeros.
func isTraceparent(text string) bool {
	return traceparentForm.MatchString(text) && strings.Trim(text[3:35], "0") != "" && strings.Trim(text[36:52], "0") != ""
}
