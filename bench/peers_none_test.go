//go:build !peers

package bench

import (
	"strings"
	"testing"
)

// The error of a build without the tag peers says how to build with it.
func TestPeersAreNotBuilt(t *testing.T) {
	cfg := small(t)
	cfg.Peers = true
	if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "make bench") {
		t.Errorf("got %v", err)
	}
	if _, err := PeerStatus(); err == nil || !strings.Contains(err.Error(), "make bench-peers") {
		t.Errorf("got %v", err)
	}
}
