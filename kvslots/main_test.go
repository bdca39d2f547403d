package kvslots

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

func TestMain(m *testing.M) {
	kvslotstest.RunAsServer()
	goleak.VerifyTestMain(logtest.NoSecrets(m))
}
