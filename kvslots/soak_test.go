package kvslots

import (
	"fmt"
	"os"
	"testing"
)

// soakRounds histories take a minute and more. One long history would test the same, but
// a single hard part of it could occupy the checker for ever.
const soakRounds = 6

// TestSoak runs the randomized tests at full length: make soak.
func TestSoak(t *testing.T) {
	if os.Getenv("KVSLOTS_SOAK") == "" {
		t.Skip("make soak")
	}
	*stormRounds = 20
	for round := range soakRounds {
		*historySeed++
		t.Run(fmt.Sprintf("many peers %d", round), TestOneSemaphoreManyPeers)
		t.Run(fmt.Sprintf("lagging views %d", round), TestLaggingViews)
		t.Run(fmt.Sprintf("sessions %d", round), TestSessionsManyPeers)
		t.Run(fmt.Sprintf("sessions at lagging peers %d", round), TestSessionsAtLaggingPeers)
	}
	t.Run("boundary storm", TestBoundaryStorm)
}
