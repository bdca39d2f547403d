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
	// Of a node without a listener for clients: see startRoutes.
	goleak.VerifyTestMain(logtest.NoSecrets(m), goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*Server).StartRouting"))
}
