package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// shortBench are the arguments of the shortest possible run.
var shortBench = []string{"bench", "--duration", "10ms", "--repetitions", "1", "--scale", "1000", "--clients", "1,2"}

// benchReport is the part of --json that scripts read.
type benchReport struct {
	Machine struct{ Processors int }
	Rows    []struct {
		Workload, Transport, Sync string
		Clients                   int
		Errors                    int
		Values                    map[string]struct{ Median, Min, Max float64 }
	}
}

func callBench(t *testing.T, args ...string) benchReport {
	t.Helper()
	code, stdout, stderr := call(t, noEnv, append(append(shortBench, "--json"), args...)...)
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	if !strings.Contains(stderr, "repetition 1/1") {
		t.Errorf("no progress on standard error: %s", stderr)
	}
	var report benchReport
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	return report
}

// Without a server, the command measures a gateway that it starts and ends, whatever the
// environment says for other gateways.
func TestBench(t *testing.T) {
	t.Setenv(asProgram, "1")
	t.Setenv("KVSLOTS_MAX_POOLS", "1")
	dir := t.TempDir()
	report := callBench(t, "--workload", "pairs", "--transport", "nats,http", "--sync", "interval", "--dir", dir)
	rows := map[string]int{}
	for _, r := range report.Rows {
		rows[r.Transport]++
		if r.Workload != "pairs" || r.Sync != "interval" || r.Errors != 0 || r.Values["per_second"].Median <= 0 || r.Values["p50_us"].Median <= 0 {
			t.Errorf("%+v", r)
		}
	}
	if len(rows) != 2 || rows["nats"] != 2 || rows["http"] != 2 || report.Machine.Processors < 1 {
		t.Errorf("rows by transport: %v; %d processors", rows, report.Machine.Processors)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}

// A running gateway is measured, with its token.
func TestBenchServer(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--auth-token", "secret")
	report := callBench(t, "--server", p.url, "--auth-token", "secret", "--workload", "pairs")
	if len(report.Rows) != 4 {
		t.Errorf("%d rows, want those of two transports with 1 and 2 clients", len(report.Rows))
	}
	for _, r := range report.Rows {
		if r.Transport != "http" && r.Transport != "v1" || r.Sync != "always" || r.Errors != 0 {
			t.Errorf("%+v", r)
		}
	}
	code, _, stderr := call(t, noEnv, append(shortBench, "--server", p.url, "--workload", "pairs")...)
	if code != exitFailed || !strings.Contains(stderr, "401") {
		t.Errorf("without the token: exit code %d, %s", code, stderr)
	}
}

// A gateway is measured over TLS, with the certificates of the other client commands.
func TestBenchServerTLS(t *testing.T) {
	cert, key := selfSigned(t)
	ours, oursKey := selfSigned(t)
	p := startTLS(t, "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ours)
	measured := []string{"--server", p.url, "--workload", "pairs"}
	report := callBench(t, append(measured, "--tls-ca", cert, "--tls-cert", ours, "--tls-key", oursKey)...)
	if len(report.Rows) != 4 {
		t.Errorf("%d rows, want those of two transports with 1 and 2 clients", len(report.Rows))
	}
	for _, r := range report.Rows {
		if r.Errors != 0 {
			t.Errorf("%+v", r)
		}
	}
	if code, _, stderr := call(t, noEnv, append(shortBench, measured...)...); code != exitFailed || !strings.Contains(stderr, "certificate") {
		t.Errorf("without the authority: exit code %d, %s", code, stderr)
	}
	if code, _, stderr := call(t, noEnv, append(shortBench, "--tls-cert", ours)...); code != exitUsage {
		t.Errorf("without the key: exit code %d, %s", code, stderr)
	}
}

func TestBenchTable(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	code, stdout, stderr := call(t, noEnv, append(shortBench, "--server", p.url, "--workload", "pairs", "--transport", "v1")...)
	if code != 0 || !strings.Contains(stdout, "pairs  ") || !strings.Contains(stdout, "per second") {
		t.Errorf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
}

func TestBenchUsage(t *testing.T) {
	for _, args := range [][]string{{"--workload", "none"}, {"--transport", "window"}, {"--duration", "1ms"}, {"--repetitions", "0"}, {"word"},
		{"--server", "http://127.0.0.1:99999"}, {"--server", "http://127.0.0.1:0"}, {"--server", "127.0.0.1:8080"}} {
		if code, _, stderr := call(t, noEnv, append([]string{"bench"}, args...)...); code != exitUsage {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
	}
}
