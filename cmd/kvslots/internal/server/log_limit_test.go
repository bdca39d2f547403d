package server

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// Whatever clients do, the log has 100 lines with one text in ten seconds, and the number
// of those that it lacks.
func TestLogLimit(t *testing.T) {
	synctest.Test(t, testLogLimit)
}

func testLogLimit(t *testing.T) {
	var out logtest.Log
	log, err := NewLogger(&out, "debug", "json")
	kvslotstest.Must(t, err)
	logged := func(lines int, level slog.Level, text string) string {
		out.Reset()
		for range lines {
			log.Log(t.Context(), level, text)
		}
		return out.String()
	}
	count := func(want int, got string) {
		t.Helper()
		if lines := strings.Count(got, "\n"); lines != want {
			t.Errorf("%d lines, want %d", lines, want)
		}
		if strings.Contains(got, "left_out") {
			t.Error("left_out before anything was left out")
		}
	}
	count(100, logged(1000, slog.LevelInfo, "request"))
	count(100, logged(101, slog.LevelError, "request failed"))
	count(1000, logged(1000, slog.LevelDebug, "request"))

	time.Sleep(10 * time.Second)
	const first = `{"level":"info","time":"2000-01-01T00:00:10.000Z","left_out":900,"message":"request"}` + "\n"
	if got := logged(1, slog.LevelInfo, "request"); got != first {
		t.Errorf("the next line is %q", got)
	}
	count(99, logged(1000, slog.LevelInfo, "request"))
}

// Texts with numbers in them take no memory without end.
func TestLogLimitBoundsTexts(t *testing.T) {
	limit := newLogLimit()
	due := 0
	for i := range 10 * maxTexts {
		if _, ok := limit.count(strconv.Itoa(i)); ok {
			due++
		}
	}
	if len(limit.texts) > maxTexts+1 || due > maxTexts+maxLines {
		t.Errorf("%d texts, %d lines", len(limit.texts), due)
	}
}
