package natsembed

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/rs/zerolog"
)

// natsLog passes nats-server's log lines to zerolog. It also keeps the first fatal
// line, after which the nats-server program would exit, as an error.
type natsLog struct {
	log zerolog.Logger

	mu    sync.Mutex
	fatal error
}

func (l *natsLog) Debugf(string, ...any) {}
func (l *natsLog) Tracef(string, ...any) {}

func (l *natsLog) Noticef(format string, v ...any) { l.line(l.log.Debug(), format, v) }
func (l *natsLog) Warnf(format string, v ...any)   { l.line(l.log.Warn(), format, v) }
func (l *natsLog) Errorf(format string, v ...any)  { l.line(l.log.Error(), format, v) }

func (l *natsLog) Fatalf(format string, v ...any) {
	l.Errorf(format, v...)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fatal == nil {
		l.fatal = errors.New(printable(fmt.Sprintf(format, v...)))
	}
}

// err returns the first fatal line as an error, or nil.
func (l *natsLog) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fatal
}

func (l *natsLog) line(event *zerolog.Event, format string, v []any) {
	if event.Enabled() {
		event.Msg(printable(strings.TrimSpace(fmt.Sprintf(format, v...))))
	}
}

// printable escapes characters that a terminal would interpret: some lines quote text
// from clients, and zerolog's console writer does not escape messages.
func printable(text string) string {
	if strings.IndexFunc(text, unprintable) < 0 {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		if unprintable(r) {
			quoted := strconv.QuoteRuneToASCII(r)
			out.WriteString(quoted[1 : len(quoted)-1])
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}

func unprintable(r rune) bool { return !strconv.IsPrint(r) }
