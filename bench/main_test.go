package bench

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/kvslots/kvslots/kvslots/logtest"
)

// holdVariable makes the test program run HoldConnections.
const holdVariable = "KVSLOTS_BENCH_HOLD"

func TestMain(m *testing.M) {
	if os.Getenv(holdVariable) != "" {
		if err := HoldConnections(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(logtest.NoSecrets(m))
}
