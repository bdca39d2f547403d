package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/bench"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// small returns the configuration of the shortest possible run: the library and the other
// lock servers.
func small(t *testing.T) (*lab, bench.Config) {
	l, cfg := smallLab(t)
	cfg.Workloads, cfg.Transports, cfg.Syncs = []string{"pairs"}, []string{"library"}, []string{"interval"}
	return l, cfg
}

// Lock servers that are installed are measured; missing ones are noted.
func TestMeasure(t *testing.T) {
	l, cfg := small(t)
	report, err := l.measure(t.Context(), cfg)
	kvslotstest.Must(t, err)
	missing := strings.Count(strings.Join(status(), "\n"), " is missing: ")
	left := slices.DeleteFunc(slices.Clone(report.Notes), func(n string) bool { return !strings.Contains(n, "is not installed") })
	if len(left) != missing {
		t.Errorf("%d lock servers are missing, and noted: %v", missing, left)
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

// Without any lock server the transports are measured nevertheless. The report is a table,
// and plots are drawn.
func TestRun(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	plots := t.TempDir()
	stdout, stderr, err := call(t, "--workload", "pairs", "--transport", "library", "--sync", "always", "--clients", "1,2", "--limits=false",
		"--duration", "10ms", "--repetitions", "1", "--dir", t.TempDir(), "--plots", plots)
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	for _, want := range []string{" pairs ", "plain KV", "left out: redis-server is not installed", "left out: etcd is not installed"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not in\n%s", want, stdout)
		}
	}
	wantSVG(t, plots+"/throughput.svg")
}

func TestStatus(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	stdout, _, err := call(t, "--status")
	want := "redis-server is missing: apt-get install redis-server\netcd is missing: apt-get install etcd-server\n"
	if err != nil || stdout != want {
		t.Errorf("%v, %q", err, stdout)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"--workload", "none"}, {"--duration", "1ms"}, {"--repetitions", "101"}, {"word"}, {"--unknown"}} {
		if stdout, _, err := call(t, args...); err == nil || stdout != "" {
			t.Errorf("%v: %v, %q", args, err, stdout)
		}
	}
}

func call(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs strings.Builder
	err = run(t.Context(), args, strings.NewReader(""), &out, &errs)
	return out.String(), errs.String(), err
}
