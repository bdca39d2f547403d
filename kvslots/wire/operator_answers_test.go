package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/kvslots"
)

// Clients print hashes, and use them in paths.
func TestHashesAreChecked(t *testing.T) {
	good := strings.Repeat("0f", 16)
	for hash, want := range map[string]string{good: good, "": "", "\x1b[2J": "", "../../x": "", strings.ToUpper(good): "", good + "0": ""} {
		var pool kvslots.PoolStats
		text, _ := json.Marshal(map[string]string{"hash": hash})
		if err := json.Unmarshal(text, &pool); (err == nil) != (want != "") || err == nil && pool.Hash.String() != want {
			t.Errorf("%q: %q, %v, want %q", hash, pool.Hash, err, want)
		}
		event := Event{Type: "granted", At: "2026-11-23T19:00:00.104Z", Hash: hash}
		if _, known := event.Event(); known != (hash == want) {
			t.Errorf("%q: an event with it is known: %t", hash, known)
		}
	}
}
