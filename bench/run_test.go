package bench

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// small returns the configuration of the shortest possible run, of the library alone.
func small(t *testing.T) Config {
	return Config{
		Duration: 10 * time.Millisecond, Repetitions: 1, Scale: 1000, Clients: []int{2}, Rate: 500,
		Start: func(_ context.Context, sync string) (*Gateway, error) {
			store := kvslotstest.New(t)
			return &Gateway{Sync: sync, Store: store, Transports: []Transport{Library(store)}}, nil
		},
	}
}

// Workloads that leave very many markers run on Config.Server only if
// Config.Workloads names them.
func TestWorkloadsOfAServer(t *testing.T) {
	cfg, err := Config{Server: &Gateway{}}.withDefaults()
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
		{"no gateway", func(c *Config) { c.Start = nil }, "no gateway"},
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

func TestParseEndpoint(t *testing.T) {
	for _, c := range []struct{ url, addr string }{
		{"http://127.0.0.1:8080", "127.0.0.1:8080"},
		{"http://example.com/", "example.com:80"},
		{"https://example.com", "example.com:443"},
		{"https://[::1]:8443", "[::1]:8443"},
		{"ftp://example.com", ""}, {"example.com:80", ""}, {"http://example.com/l", ""}, {"", ""},
	} {
		t.Run(c.url, func(t *testing.T) {
			e, err := ParseEndpoint(c.url, "", nil)
			if (err == nil) != (c.addr != "") || e.addr != c.addr {
				t.Errorf("got %q, %v", e.addr, err)
			}
			if err == nil && strings.TrimSuffix(c.url, "/") != e.URL() {
				t.Errorf("the URL became %q", e.URL())
			}
		})
	}
}
