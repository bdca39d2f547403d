package server

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// The lines have the level, the fields of the component, those of the line, the time in
// milliseconds, and the message.
func TestLogLines(t *testing.T) {
	for format, want := range map[string]string{
		"json": `{"level":"warn","component":"store","error":"a\\b\"c\u001b\nd<e>","stack":["f","g&"],"detail":"\ufffd","ms":1.5,"n":7,` +
			`"time":"2000-01-01T00:00:00.000Z","message":"not \"ready\""}` + "\n",
		"console": time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Local().Format(time.TimeOnly) + ` WRN not "ready" error="a\\b\"c\x1b\nd<e>" component=store detail="�" ms=1.5 n=7 stack=["f","g&"]` + "\n",
	} {
		t.Run(format, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testLogLine(t, format, want) })
		})
	}
}

func testLogLine(t *testing.T, format, want string) {
	var out logtest.Log
	log, err := NewLogger(&out, "info", format)
	kvslotstest.Must(t, err)
	log = log.With("component", "store")
	log.Debug("ready")
	log.Warn(`not "ready"`, "error", errors.New("a\\b\"c\x1b\nd<e>"), "stack", []string{"f", "g&"}, "detail", "\xff", "ms", 1.5, "n", 7)
	if got := out.String(); got != want {
		t.Errorf("logged\n%s, want\n%s", got, want)
	}
	if log.Enabled(t.Context(), slog.LevelDebug) {
		t.Error("debug is enabled at level info")
	}
}

// Whatever clients do, the log has 100 lines of one level in ten seconds.
func TestLogLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out logtest.Log
		log, err := NewLogger(&out, "debug", "json")
		kvslotstest.Must(t, err)
		want := func(lines int, level slog.Level) {
			t.Helper()
			out.Reset()
			for range 1000 {
				log.With("component", "http").Log(t.Context(), level, "request")
			}
			if got := strings.Count(out.String(), "\n"); got != lines {
				t.Errorf("%d lines of level %s, want %d", got, level, lines)
			}
		}
		want(100, slog.LevelInfo)
		want(0, slog.LevelInfo)
		want(100, slog.LevelError)
		want(1000, slog.LevelDebug)
		time.Sleep(10 * time.Second)
		want(100, slog.LevelInfo)
	})
}
