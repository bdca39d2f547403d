package natsembed

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/kvslots/kvslots/kvslots/logtest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimDir); dir != "" {
		runVictim(dir)
	}
	goleak.VerifyTestMain(logtest.NoSecrets(m))
}
