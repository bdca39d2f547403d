package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// A file is also read when it changes without a signal, and an error is logged once.
func TestReloaderFollowsFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		t.Helper()
		err := os.WriteFile(file+".new", []byte(text), 0o600)
		if err == nil {
			err = os.Rename(file+".new", file)
		}
		kvslotstest.Must(t, err)
	}
	write("one")
	lines := &logtest.Log{}
	opened := settingsOf(t, "--auth-token-file", file)
	s := &server{settings: opened, log: lines.Logger()}
	ticks := make(chan time.Time)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.reload(t.Context(), nil, ticks)
	}()
	tick := func() { ticks <- time.Time{} }
	for range 3 {
		tick()
	}
	write("two")
	tick()
	tick() // the reload of the tick before has ended
	if opened.Tokens.Access("Bearer two") != wire.AccessFull || opened.Tokens.Access("Bearer one") != wire.AccessNone {
		t.Errorf("the change is not in force:\n%s", lines)
	}
	kvslotstest.Must(t, os.Remove(file))
	for range 3 {
		tick()
	}
	text := lines.String()
	if opened.Tokens.Access("Bearer two") != wire.AccessFull || strings.Count(text, "cannot read") != 1 || strings.Count(text, "reloaded") != 1 {
		t.Errorf("logged:\n%s", text)
	}
}
