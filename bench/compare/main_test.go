package main

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/kvslots/kvslots/kvslots/logtest"
)

// holdVariable makes the test program run holdConnections.
const holdVariable = "KVSLOTS_COMPARE_HOLD"

func TestMain(m *testing.M) {
	if os.Getenv(holdVariable) != "" {
		if err := holdConnections(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(logtest.NoSecrets(m))
}
