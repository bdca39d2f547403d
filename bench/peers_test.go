//go:build peers

package bench

import (
	"slices"
	"strings"
	"testing"
)

// Installed peers are measured; missing peers are noted.
func TestPeers(t *testing.T) {
	t.Parallel()
	cfg := small(t)
	cfg.Workloads, cfg.Transports, cfg.Syncs, cfg.Peers = []string{"pairs"}, []string{"library"}, []string{"interval"}, true
	report, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := PeerStatus()
	if err != nil {
		t.Fatal(err)
	}
	missing := strings.Count(strings.Join(lines, "\n"), " is missing: ")
	left := slices.DeleteFunc(slices.Clone(report.Notes), func(n string) bool { return !strings.Contains(n, "is not installed") })
	if len(left) != missing {
		t.Errorf("%d peers are missing, and noted: %v", missing, left)
	}
	rows := 3 // the library, and plain KV twice
	for name, n := range map[string]int{"redis-server": 2, "etcd ": 1} {
		if !strings.Contains(strings.Join(left, "\n"), name) {
			rows += n
		}
	}
	if len(report.Rows) != rows {
		t.Errorf("%d rows, want %d; %v", len(report.Rows), rows, report.Notes)
	}
	for _, r := range report.Rows {
		if r.Errors > 0 {
			t.Errorf("%v: %d errors, the first: %s", r.Key, r.Errors, r.FirstError)
		}
	}
}

// If no peer is installed, the transports are measured nevertheless.
func TestPeersAreMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	cfg := small(t)
	cfg.Workloads, cfg.Transports, cfg.Syncs, cfg.Peers = []string{"pairs"}, []string{"library"}, []string{"interval"}, true
	report, err := Run(t.Context(), cfg)
	if err != nil || len(report.Rows) != 3 || len(report.Notes) != len(peers) {
		t.Fatalf("%d rows, %v, %v", len(report.Rows), report.Notes, err)
	}
	lines, err := PeerStatus()
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range lines {
		if want := peers[i].program + " is missing: apt-get install " + peers[i].pkg; line != want {
			t.Errorf("got %q, want %q", line, want)
		}
	}
}
