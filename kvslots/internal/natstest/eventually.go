package natstest

import (
	"testing"
	"time"
)

const eventuallyLimit = 5 * time.Minute

// Eventually waits for a condition, and fails the test if it is not met within five minutes. It
// checks the condition ever less often, since the check may cost the server much.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	began := time.Now()
	for pause := time.Millisecond; !condition(); pause = min(2*pause, 20*time.Millisecond) {
		if time.Since(began) > eventuallyLimit {
			t.Fatalf("never: %s", what)
		}
		<-time.After(pause)
	}
}
