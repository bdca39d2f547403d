package server

import (
	"context"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/rs/zerolog"
)

// NewLogger returns a logger that writes to w, in the format json or console, or auto:
// console if w is a terminal. It limits the lines that a client can cause.
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	parsed, err := zerolog.ParseLevel(level)
	if err != nil {
		return nil, err
	}
	if format == "console" || format == "auto" && IsTerminal(w) {
		w = zerolog.ConsoleWriter{Out: w, NoColor: !IsTerminal(w), TimeFormat: time.TimeOnly}
	}
	lines := zerolog.New(zerolog.SyncWriter(w)).Level(parsed).Sample(limits()).Hook(timestamp{})
	return slog.New(handler{zerolog.NewSlogHandler(lines)}), nil
}

// limits returns a sampler that lets 100 lines of each level above debug pass in ten seconds: a client
// that floods the gateway may cause one with each request.
func limits() zerolog.Sampler {
	burst := func() zerolog.Sampler { return &zerolog.BurstSampler{Burst: 100, Period: 10 * time.Second} }
	return zerolog.LevelSampler{InfoSampler: burst(), WarnSampler: burst(), ErrorSampler: burst()}
}

// handler hands log records to zerolog without their time, for which zerolog has a format
// that is a global variable, and which timestamp adds.
type handler struct{ slog.Handler }

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	r.Time = time.Time{}
	return h.Handler.Handle(ctx, r)
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs)}
}

func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name)} }

// timestamp adds the time to log lines, in milliseconds.
type timestamp struct{}

func (timestamp) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str(zerolog.TimestampFieldName, time.Now().UTC().Format("2006-01-02T15:04:05.000Z"))
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
