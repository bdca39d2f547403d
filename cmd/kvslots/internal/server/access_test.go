package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/logtest"
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
		if err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	lines := &logtest.Log{}
	opened, err := openAccess(settingsOf(t, "--auth-token-file", file))
	if err != nil {
		t.Fatal(err)
	}
	r := &reloader{of: opened.files, log: lines.Logger(), failed: map[string]string{}}
	ticks := make(chan time.Time)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.run(t.Context(), nil, ticks)
	}()
	tick := func() { ticks <- time.Time{} }
	for range 3 {
		tick()
	}
	write("two")
	tick()
	tick() // the reload of the tick before has ended
	if !opened.tokens.Accept("Bearer two") || opened.tokens.Accept("Bearer one") {
		t.Errorf("the change is not in force:\n%s", lines)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		tick()
	}
	text := lines.String()
	if !opened.tokens.Accept("Bearer two") || strings.Count(text, "cannot read") != 1 || strings.Count(text, "reloaded") != 1 {
		t.Errorf("logged:\n%s", text)
	}
}
