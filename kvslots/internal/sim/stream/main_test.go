package stream_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

func TestMain(m *testing.M) {
	natstest.RunAsServer()
	goleak.VerifyTestMain(m)
}
