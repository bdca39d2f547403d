package kvslots

import (
	"fmt"
	"os"
	"testing"
)

// soakRounds of a history make a minute and more. One long history would say
// the same, but one hard spot in it can keep the checker busy for ever.
const soakRounds = 6

// TestSoak runs the tests against randomness at their full length: make soak.
func TestSoak(t *testing.T) {
	if os.Getenv("KVSLOTS_SOAK") == "" {
		t.Skip("make soak")
	}
	*stormRounds = 20
	for round := range soakRounds {
		*historySeed++
		t.Run(fmt.Sprintf("many doors %d", round), TestOneSemaphoreManyDoors)
		t.Run(fmt.Sprintf("lagging views %d", round), TestLaggingViews)
		t.Run(fmt.Sprintf("sessions %d", round), TestSessionsManyDoors)
		t.Run(fmt.Sprintf("sessions at lagging peers %d", round), TestSessionsAtLaggingPeers)
	}
	t.Run("boundary storm", TestBoundaryStorm)
}
