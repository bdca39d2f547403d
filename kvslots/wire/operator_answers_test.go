package wire

import (
	"strings"
	"testing"
)

// Clients print hashes, and use them in paths.
func TestHashesAreChecked(t *testing.T) {
	good := strings.Repeat("0f", 16)
	for hash, want := range map[string]string{good: good, "": "", "\x1b[2J": "", "../../x": "", strings.ToUpper(good): "", good + "0": ""} {
		info := PoolInfo{Hash: hash}
		if got := info.Stats().Hash; got != want {
			t.Errorf("%q: %q, want %q", hash, got, want)
		}
		event := Event{Type: "granted", At: "2026-11-23T19:00:00.104Z", Hash: hash}
		if _, known := event.Event(); known != (hash == want) {
			t.Errorf("%q: an event with it is known: %t", hash, known)
		}
	}
}
