package kvslots

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"
)

// soaking reports whether make soak runs the tests. Then they run at their full length,
// and may demand times that a busy machine does not keep.
var soaking = os.Getenv("KVSLOTS_SOAK") != ""

// soak skips a test that takes long.
func soak(t *testing.T) {
	t.Helper()
	if !soaking {
		t.Skip("make soak")
	}
}

// inSoak returns how many rounds a test has.
func inSoak(rounds, soak int) int {
	if soaking {
		return soak
	}
	return rounds
}

// besideOthers runs a test in parallel with others, but alone in make soak, where it
// demands times.
func besideOthers(t *testing.T) {
	if !soaking {
		t.Parallel()
	}
}

// TestSoakHistories runs many short histories of each kind. None of them may be Illegal,
// and at most one in twenty undecided: one long history would test the same, but a
// single hard part of it could occupy the checker forever.
func TestSoakHistories(t *testing.T) {
	soak(t)
	for _, kind := range []struct {
		name   string
		rounds int
		set    setting
	}{
		{"pools", 40, setting{peers: 3, clients: 50, pools: 40}},
		{"pools, lagging", 40, setting{peers: 3, clients: 30, pools: 30, hook: lagBehind, disturb: breakFeeds}},
	} {
		var decided, undecided atomic.Int64
		t.Run(kind.name, func(t *testing.T) {
			for round := range kind.rounds {
				t.Run(fmt.Sprint(round), func(t *testing.T) {
					t.Parallel()
					set := kind.set
					set.length, set.seed = *historyTime/5, *historySeed+uint64(round)
					if runHistory(t, set) == porcupine.Unknown {
						undecided.Add(1)
					} else {
						decided.Add(1)
					}
				})
			}
		})
		t.Logf("%s: %d of %d histories are Ok, %d undecided", kind.name, decided.Load(), kind.rounds, undecided.Load())
		if undecided.Load() > int64(kind.rounds/20) {
			t.Errorf("%s: more than 1 in 20 histories are undecided", kind.name)
		}
	}
}
