package natsembed

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/kvslots/kvslots/kvslots/logtest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimDir); dir != "" {
		if task := os.Getenv(victimTask); task != "" {
			runTask(dir, task)
		}
		runVictim(dir)
	}
	goleak.VerifyTestMain(logtest.NoSecrets(m))
}
