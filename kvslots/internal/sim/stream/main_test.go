package stream_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

func TestMain(m *testing.M) {
	kvslotstest.RunAsServer()
	goleak.VerifyTestMain(m)
}
