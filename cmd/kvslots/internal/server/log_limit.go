package server

import (
	"sync"
	"time"

	"github.com/rs/zerolog"
)

const (
	// At most maxLines lines with the same text are logged in each linesEvery: a client
	// that floods the gateway may cause one with each request.
	maxLines   = 100
	linesEvery = 10 * time.Second

	// maxTexts bounds the number of texts; further ones count as one. Those of this
	// program are constants, and some of nats-server's contain numbers.
	maxTexts = 1000
)

// logLimit limits the log lines with the same text, except those at level debug. The first
// line after others were left out has their number.
type logLimit struct {
	mu    sync.Mutex
	texts map[string]*textLines
}

type textLines struct {
	began   time.Time
	logged  int // since began
	leftOut int // since the last one that was logged
}

func newLogLimit() *logLimit { return &logLimit{texts: map[string]*textLines{}} }

// Run implements zerolog.Hook.
func (l *logLimit) Run(e *zerolog.Event, level zerolog.Level, text string) {
	if level <= zerolog.DebugLevel {
		return
	}
	leftOut, due := l.count(text)
	switch {
	case !due:
		e.Discard()
	case leftOut > 0:
		e.Int("left_out", leftOut)
	}
}

// count counts a line. due reports whether to log it, and leftOut is the number of lines
// with the same text that were left out since the last one that was logged.
func (l *logLimit) count(text string) (leftOut int, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.texts[text] == nil && len(l.texts) >= maxTexts {
		text = ""
	}
	of := l.texts[text]
	if of == nil {
		of = &textLines{}
		l.texts[text] = of
	}
	if now := time.Now(); now.Sub(of.began) >= linesEvery {
		of.began, of.logged = now, 0
	}
	if of.logged >= maxLines {
		of.leftOut++
		return 0, false
	}
	of.logged++
	leftOut, of.leftOut = of.leftOut, 0
	return leftOut, true
}
