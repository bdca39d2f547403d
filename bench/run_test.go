package bench

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/logtest"
)

// small returns the configuration of the shortest possible run.
func small(t *testing.T) Config {
	return Config{
		Duration: 10 * time.Millisecond, Repetitions: 1, Scale: 1000, Clients: []int{2}, Rate: 500,
		Dir: t.TempDir(), Progress: testLog{t},
	}
}

// testLog logs the progress of a run, which go test prints if the test fails.
type testLog struct{ t *testing.T }

func (l testLog) Write(line []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(line)))
	return len(line), nil
}

// Every workload is measured over every transport, without errors.
func TestRun(t *testing.T) {
	t.Parallel()
	cfg := small(t)
	cfg.Limits = true
	report, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	for _, r := range report.Rows {
		has[r.Workload+" "+r.Transport+" "+r.Sync] = true
		if r.Errors > 0 || len(r.Values) == 0 {
			t.Errorf("%v: %d errors, the first: %s", r.Key, r.Errors, r.FirstError)
		}
	}
	for _, note := range report.Notes {
		t.Error(note)
	}
	var wanted []string
	for _, transport := range TransportNames() {
		for _, workload := range []string{"pairs", "shared-pool", "arrivals"} {
			wanted = append(wanted, workload+" "+transport+" always", workload+" "+transport+" interval")
		}
		for _, workload := range []string{"last-slot", "handover", "many-waiters", "expiry"} {
			wanted = append(wanted, workload+" "+transport+" interval")
		}
		if transport != transportV1 {
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

// A testbed is measured as Config.Server. The run leaves nothing on it.
func TestRunServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, err := startTestbed(t.Context(), dir, "interval", holdInProcess)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		logtest.SearchDir(dir) // close removes it
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
	cfg := small(t)
	cfg.Server, cfg.Workloads = r.http.url(), []string{"pairs", "handover", "named-once"}
	report, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
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

// Workloads that leave very many markers run on Config.Server only if
// Config.Workloads names them.
func TestWorkloadsOfAServer(t *testing.T) {
	cfg, err := Config{Server: "http://127.0.0.1:8080"}.withDefaults()
	if err != nil || len(cfg.Workloads) != len(workloads())-2 || cfg.measures("many-pools") || cfg.measures("many-waiters") {
		t.Errorf("%v, %v", cfg.Workloads, err)
	}
}

func TestRunRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(c *Config)
		want   string
	}{
		{"a workload", func(c *Config) { c.Workloads = []string{"none"} }, `no workload "none"`},
		{"a transport", func(c *Config) { c.Transports = []string{"window"} }, `no transport "window"`},
		{"a sync mode", func(c *Config) { c.Syncs = []string{"never"} }, `no sync "never"`},
		{"a duration", func(c *Config) { c.Duration = time.Millisecond }, "10ms or more"},
		{"repetitions", func(c *Config) { c.Repetitions = 101 }, "1 to 100"},
		{"clients", func(c *Config) { c.Clients = []int{0} }, "1 to 4096"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := small(t)
			c.change(&cfg)
			if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestRunIsInterrupted(t *testing.T) {
	cfg := small(t)
	cfg.Workloads, cfg.Repetitions = []string{"pairs"}, 100
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg.Progress = writer(func(line []byte) { cancel() })
	report, err := Run(ctx, cfg)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if report == nil || len(report.Rows) != 1 || len(report.Rows[0].Repetitions) != 1 {
		t.Errorf("it reports %+v", report)
	}
}

type writer func(line []byte)

func (w writer) Write(line []byte) (int, error) {
	w(line)
	return len(line), nil
}

// Another process holds the connections of waiters, which end with that process.
func TestHoldElsewhere(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(holdVariable, "1")
	cfg := small(t)
	cfg.Holder = []string{program}
	cfg.Workloads, cfg.Transports = []string{"many-waiters"}, []string{"http", "v1"}
	report, err := Run(t.Context(), cfg)
	if err != nil || len(report.Rows) != 4 || len(report.Notes) != 0 {
		t.Fatalf("%d rows, %v, %v", len(report.Rows), report.Notes, err)
	}
}

func TestHoldConnectionsRefuses(t *testing.T) {
	for name, in := range map[string]string{"no JSON": "x", "no server": `{"requests": []}`} {
		t.Run(name, func(t *testing.T) {
			if HoldConnections(t.Context(), strings.NewReader(in), io.Discard) == nil {
				t.Error("it was taken")
			}
		})
	}
}

func TestParseEndpoint(t *testing.T) {
	for _, c := range []struct{ url, addr string }{
		{"http://127.0.0.1:8080", "127.0.0.1:8080"},
		{"http://example.com/", "example.com:80"},
		{"https://example.com", "example.com:443"},
		{"https://[::1]:8443", "[::1]:8443"},
		{"ftp://example.com", ""}, {"example.com:80", ""}, {"http://example.com/l", ""}, {"", ""},
	} {
		t.Run(c.url, func(t *testing.T) {
			e, err := parseEndpoint(c.url, "", nil)
			if (err == nil) != (c.addr != "") || e.addr != c.addr {
				t.Errorf("got %q, %v", e.addr, err)
			}
			if err == nil && strings.TrimSuffix(c.url, "/") != e.url() {
				t.Errorf("the URL became %q", e.url())
			}
		})
	}
}
