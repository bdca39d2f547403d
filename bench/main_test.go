package bench

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/kvslots/kvslots/kvslots/logtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(logtest.NoSecrets(m)) }
