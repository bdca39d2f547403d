package kvslots

import (
	"os"
	"testing"
	"time"
)

// TestSoak runs the tests against randomness at their full length: make soak.
func TestSoak(t *testing.T) {
	if os.Getenv("KVSLOTS_SOAK") == "" {
		t.Skip("make soak")
	}
	*historyTime, *stormRounds, *checkTime = time.Minute, 20, 5*time.Minute
	t.Run("many doors", TestOneSemaphoreManyDoors)
	t.Run("lagging views", TestLaggingViews)
	t.Run("boundary storm", TestBoundaryStorm)
}
