package main

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/bench"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// smallLab returns a lab, and the configuration of the shortest possible run of all workloads.
func smallLab(t *testing.T) (*lab, bench.Config) {
	l := &lab{hold: bench.Hold, testbeds: map[*kvslots.Store]*testbed{}, servers: servers{dir: t.TempDir()}}
	return l, bench.Config{
		Start: l.start, Duration: 10 * time.Millisecond, Repetitions: 1, Scale: 1000, Clients: []int{2}, Rate: 500,
		Progress: testLog{t},
	}
}

// testLog logs the progress of a run, which go test prints if the test fails.
type testLog struct{ t *testing.T }

func (l testLog) Write(line []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(line)))
	return len(line), nil
}

// Every workload is measured over every transport, without errors.
func TestWorkloads(t *testing.T) {
	t.Parallel()
	l, cfg := smallLab(t)
	l.measuresLimits = true
	report, err := l.measure(t.Context(), cfg)
	kvslotstest.Must(t, err)
	has := map[string]bool{}
	for _, r := range report.Rows {
		has[r.Workload+" "+r.Transport+" "+r.Sync] = true
		if r.Errors > 0 || len(r.Values) == 0 {
			t.Errorf("%v: %d errors, the first: %s", r.Key, r.Errors, r.FirstError)
		}
	}
	for _, note := range report.Notes {
		if !strings.Contains(note, " is not installed ") {
			t.Error(note)
		}
	}
	var wanted []string
	for _, transport := range append(bench.TransportNames(), bench.TransportLibrary) {
		for _, workload := range []string{"pairs", "shared-pool", "arrivals"} {
			wanted = append(wanted, workload+" "+transport+" always", workload+" "+transport+" interval")
		}
		for _, workload := range []string{"last-slot", "handover", "many-waiters", "expiry"} {
			wanted = append(wanted, workload+" "+transport+" interval")
		}
		if transport != "v1" {
			wanted = append(wanted, "many-pools "+transport+" interval")
		}
		if transport != transportHTTP {
			wanted = append(wanted, "named-once "+transport+" always", "named-hot "+transport+" interval")
		}
	}
	wanted = append(wanted,
		"pairs raw always", "pairs raw interval", "pairs library-fsync always", "pairs net/http ", "pairs net/http+library always", "pairs net/http+library interval", "pairs nats-echo ", "pairs nats-ping ", "pairs nats-ping+library interval", "pairs fsync ")
	for _, want := range wanted {
		if !has[want] {
			t.Errorf("%q was not measured", want)
		}
	}
}

// A testbed is measured from outside, as Config.Server. The run leaves nothing on it.
func TestRunServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, err := startTestbed(t.Context(), dir, "interval", bench.Hold)
	kvslotstest.Must(t, err)
	t.Cleanup(func() {
		logtest.SearchDir(dir) // close removes it
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
	_, cfg := smallLab(t)
	cfg.Server, err = bench.Remote(t.Context(), r.http, nil)
	kvslotstest.Must(t, err)
	cfg.Workloads = []string{"pairs", "handover", "named-once"}
	report, err := bench.Run(t.Context(), cfg)
	kvslotstest.Must(t, err)
	transports := map[string]bool{}
	for _, row := range report.Rows {
		transports[row.Transport] = true
		if row.Sync != "interval" || row.Errors > 0 {
			t.Errorf("%v: %d errors", row.Key, row.Errors)
		}
	}
	if len(transports) != 2 || !transports["http"] || !transports["v1"] {
		t.Errorf("measured by %v", transports)
	}
	stats, err := r.store.Stats(t.Context())
	if err != nil || len(stats.Pools) != 0 || stats.Sessions != 0 {
		t.Errorf("%d pools and %d sessions are left, %v", len(stats.Pools), stats.Sessions, err)
	}
}

// Another process holds the connections of waiters, which end with that process.
func TestHoldElsewhere(t *testing.T) {
	program, err := os.Executable()
	kvslotstest.Must(t, err)
	t.Setenv(holdVariable, "1")
	l, cfg := smallLab(t)
	l.hold = holdElsewhere([]string{program})
	cfg.Workloads, cfg.Transports = []string{"many-waiters"}, []string{"http", "v1"}
	report, err := bench.Run(t.Context(), cfg)
	err = errors.Join(err, l.close())
	if err != nil || len(report.Rows) != 4 || len(report.Notes) != 0 {
		t.Fatalf("%d rows, %v, %v", len(report.Rows), report.Notes, err)
	}
}

func TestHoldConnectionsRefuses(t *testing.T) {
	for name, in := range map[string]string{"no JSON": "x", "no server": `{"requests": []}`} {
		t.Run(name, func(t *testing.T) {
			if holdConnections(t.Context(), strings.NewReader(in), io.Discard) == nil {
				t.Error("it was taken")
			}
		})
	}
}
