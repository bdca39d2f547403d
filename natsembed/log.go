package natsembed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kvslots/kvslots/natsembed/internal/flush"
	"github.com/kvslots/kvslots/natsembed/listener"
)

// natsLog passes nats-server's log lines to a logger. It also keeps, as an error, the first
// fatal line, after which the nats-server program would exit, and the reported write error.
type natsLog struct {
	log *slog.Logger

	mu         sync.Mutex
	fatal      error
	write      error
	routeLines map[string]time.Time // when lines about routes were logged, by their text
}

// writeErrorFormat ends the formats of the lines in which nats-server reports an error of a
// write or of a flush. It logs the line before any call that fails for this error returns.
const writeErrorFormat = "ritical write error: %v"

func newNatsLog(log *slog.Logger) *natsLog {
	return &natsLog{log: log, routeLines: map[string]time.Time{}}
}

func (l *natsLog) Debugf(string, ...any) {}
func (l *natsLog) Tracef(string, ...any) {}

func (l *natsLog) Noticef(format string, v ...any) { l.line(slog.LevelDebug, format, v) }
func (l *natsLog) Warnf(format string, v ...any)   { l.line(slog.LevelWarn, format, v) }

func (l *natsLog) Errorf(format string, v ...any) {
	if strings.HasSuffix(format, writeErrorFormat) && len(v) > 0 {
		if err, ok := v[len(v)-1].(error); ok {
			l.keepWriteError(err)
		}
	}
	l.line(slog.LevelError, format, v)
}

// keepWriteError keeps the first write error, and in place of one that may pass the first
// that does not.
func (l *natsLog) keepWriteError(err error) {
	if path := (*fs.PathError)(nil); errors.As(err, &path) && (path.Op == "sync" || path.Op == "close") {
		err = fmt.Errorf("%w: %w", flush.ErrFailed, err) // earlier writes are lost
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.write == nil || flush.Retriable(l.write) && !flush.Retriable(err) {
		l.write = err
	}
}

// writeErr returns the write error that nats-server has reported, or nil. After a write
// error nats-server writes no more to the stream.
func (l *natsLog) writeErr() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.write
}

func (l *natsLog) Fatalf(format string, v ...any) {
	l.Errorf(format, v...)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fatal == nil {
		l.fatal = errors.New(formatConcealed(format, v))
	}
}

// err returns the first fatal line as an error, or nil.
func (l *natsLog) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fatal
}

func (l *natsLog) line(level slog.Level, format string, v []any) {
	if !l.log.Enabled(context.Background(), level) {
		return
	}
	if client, kind, ok := listener.LineAboutClient(format, v); ok {
		l.log.Log(context.Background(), level, kind, "client", client)
		return
	}
	text := formatConcealed(format, v)
	if !l.isRepeat(text) {
		l.log.Log(context.Background(), level, text)
	}
}

// ofConnection is what a line about a route has of its connection, which differs at each attempt.
var ofConnection = regexp.MustCompile(`^\S+ - rid:\d+ - `)

const (
	routeLineEvery = time.Minute
	maxRouteLines  = 64
)

// isRepeat reports whether a line about a route was logged within a minute: a machine that is refused tries again several
// times a second, for ever.
func (l *natsLog) isRepeat(text string) bool {
	of := ofConnection.ReplaceAllString(text, "")
	if of == text && !strings.HasPrefix(text, "Waiting for routing") {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if last, logged := l.routeLines[of]; logged && time.Since(last) < routeLineEvery {
		return true
	}
	if len(l.routeLines) >= maxRouteLines {
		clear(l.routeLines)
	}
	l.routeLines[of] = time.Now()
	return false
}

// formatConcealed formats a line that is not about a client.
func formatConcealed(format string, v []any) string {
	concealing := make([]any, len(v))
	for i, value := range v {
		concealing[i] = concealed{value}
	}
	return printable(strings.TrimSpace(fmt.Sprintf(format, concealing...)))
}

// concealed is a value that is not printed where a line quotes it with %q: subjects and
// messages, which nats-server quotes in this way, may contain a client's secrets. What an
// operator needs is printed: names of files, which are absolute, and errors of the network.
type concealed struct{ value any }

// Format implements fmt.Formatter.
func (c concealed) Format(f fmt.State, verb rune) {
	name, _ := c.value.(string)
	_, network := c.value.(*net.OpError)
	if verb == 'q' && !filepath.IsAbs(name) && !network {
		_, _ = io.WriteString(f, "…")
		return
	}
	fmt.Fprintf(f, fmt.FormatString(f, verb), c.value)
}

// printable escapes characters that a terminal would interpret: some lines quote text
// from clients, and not every logger escapes messages, such as zerolog's console writer.
func printable(text string) string {
	var out strings.Builder
	for _, r := range text {
		if strconv.IsPrint(r) {
			out.WriteRune(r)
		} else {
			out.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return out.String()
}
