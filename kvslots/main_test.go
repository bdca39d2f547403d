package kvslots

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

func TestMain(m *testing.M) {
	natstest.RunAsServer()
	goleak.VerifyTestMain(logtest.NoSecrets(m))
}
