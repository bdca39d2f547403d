package gatewaytest

import (
	"testing"
	"time"
)

// Eventually waits for a condition, and fails the test if the condition is not met
// within 20 s.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !condition(); {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}
