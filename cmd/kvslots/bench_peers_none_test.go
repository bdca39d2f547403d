//go:build !peers

package main

import (
	"strings"
	"testing"
)

func TestBenchWithoutPeers(t *testing.T) {
	for _, flag := range []string{"--peers", "--peer-status"} {
		code, stdout, stderr := call(t, noEnv, "bench", flag)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, "make bench") {
			t.Errorf("%s: exit code %d, %q, %q", flag, code, stdout, stderr)
		}
	}
}
