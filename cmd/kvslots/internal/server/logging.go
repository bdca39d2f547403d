package server

import (
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
)

// NewLogger returns a logger that writes to w, in the format json or console. It limits
// the lines that a client can cause.
func NewLogger(w io.Writer, level, format string) (zerolog.Logger, error) {
	parsed, err := zerolog.ParseLevel(level)
	if err != nil {
		return zerolog.Nop(), err
	}
	if format == "console" {
		w = zerolog.ConsoleWriter{Out: w, NoColor: !isTerminal(w), TimeFormat: time.TimeOnly}
	}
	return zerolog.New(zerolog.SyncWriter(w)).Level(parsed).Hook(timestamp{}, newLogLimit()), nil
}

// timestamp adds the time to log lines, in milliseconds. The format of zerolog's own
// timestamps is a global variable.
type timestamp struct{}

func (timestamp) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str(zerolog.TimestampFieldName, time.Now().UTC().Format("2006-01-02T15:04:05.000Z"))
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
