package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/gateway/openapitest"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

const pool = "9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01"

// program is "kvslots serve" within the test's process.
type program struct {
	url  string
	tls  *tls.Config // of clients; nil means the default
	logs *logs
	stop context.CancelFunc // has the effect of SIGTERM
	code chan int
}

// startServe runs serve and waits until it listens. serve stops at the end of the test
// at the latest.
func startServe(t *testing.T, env settings.Environment, args ...string) *program {
	t.Helper()
	p := runServe(t, env, args...)
	p.url = "http://" + p.logs.waitFor(t, "listening")["http"].(string)
	return p
}

// runServe runs serve. It stops at the end of the test at the latest.
func runServe(t *testing.T, env settings.Environment, args ...string) *program {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &program{logs: newLogs(), stop: cancel, code: make(chan int, 1)}
	args = append([]string{"serve", "--http-addr", "127.0.0.1:0", "--drain-wait", "0"}, args...)
	go func() { p.code <- run(ctx, args, strings.NewReader(""), io.Discard, p.logs, env) }()
	t.Cleanup(func() {
		p.searchMetrics()
		cancel()
		p.exitCode(t)
		searchDataDir(args)
	})
	return p
}

// searchDataDir looks for secrets in the data directory of a gateway with these arguments.
func searchDataDir(args []string) {
	if dir := slices.Index(args, "--data-dir"); dir >= 0 {
		logtest.SearchDir(args[dir+1])
	}
}

// searchMetrics looks for secrets in a scrape of the metrics, if the program still serves
// them.
func (p *program) searchMetrics() {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: p.tls}, Timeout: time.Second}
	if resp, err := client.Get(p.url + "/metrics"); err == nil {
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body) // it may be cut off
		logtest.Search("a scrape of the metrics", text)
	}
}

// exitCode waits for the end of the program and returns its exit code.
func (p *program) exitCode(t *testing.T) int {
	t.Helper()
	code := <-p.code
	p.code <- code // for the next call
	return code
}

// end stops the program, which ends with exit code 0.
func (p *program) end(t *testing.T) {
	t.Helper()
	p.stop()
	if code := p.exitCode(t); code != exitDone {
		t.Errorf("exit code %d; logs:\n%s", code, p.logs)
	}
}

// ask sends a request on a new connection.
func (p *program) ask(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	code, _, answer := p.askWith(t, nil, method, path, body)
	return code, answer
}

// askWith is ask with headers.
func (p *program) askWith(t *testing.T, header http.Header, method, path, body string) (int, http.Header, string) {
	t.Helper()
	client := &http.Client{Transport: openapitest.Transport(t, &http.Transport{DisableKeepAlives: true, TLSClientConfig: p.tls})}
	r, err := http.NewRequestWithContext(t.Context(), method, p.url+path, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0, nil, ""
	}
	maps.Copy(r.Header, header)
	resp, err := client.Do(r)
	if err != nil {
		t.Error(err)
		return 0, nil, ""
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, resp.Header, string(answer)
}

// want sends a request and checks the answer.
func (p *program) want(t *testing.T, method, path, body string, code int, answer string) {
	t.Helper()
	if gotCode, got := p.ask(t, method, path, body); gotCode != code || !strings.Contains(got, answer) {
		t.Errorf("%s %s %s\n got %d %s\nwant %d %s", method, path, body, gotCode, got, code, answer)
	}
}

// logs are JSON lines for which a test can wait.
type logs struct{ logtest.Log }

func newLogs() *logs { return &logs{} }

// waitFor waits for the line with a message, and returns it.
func (l *logs) waitFor(t *testing.T, message string) (line map[string]any) {
	t.Helper()
	l.Await(t, func(text string) bool {
		for each := range strings.Lines(text) {
			var fields map[string]any
			if json.Unmarshal([]byte(each), &fields) == nil && fields["message"] == message {
				line = fields
				return true
			}
		}
		return false
	})
	return line
}

func TestServe(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	p.want(t, "GET", "/ready", "", 200, `{"status":"ready","sync":"always"}`)
	p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, `"count":1`)
	p.want(t, "POST", "/l/"+pool+"/borrow", `{"ttl":30}`, 200, `"position":0`)
	p.want(t, "POST", "/l/"+pool+"/borrow", `{"ttl":30}`, 409, `{"error":"no resource available"}`)
	p.want(t, "GET", "/metrics", "", 200, `kvslots_build_info`)
	p.end(t)
	p.logs.waitFor(t, "stopped")
}

func TestServeTakesItsEnvironment(t *testing.T) {
	p := startServe(t, map[string]string{
		"KVSLOTS_DATA_DIR": t.TempDir(),
		"KVSLOTS_SYNC":     "interval",
		"KVSLOTS_MAX_TTL":  "7",
	})
	p.want(t, "GET", "/ready", "", 200, `{"status":"ready","sync":"interval"}`)
	if !strings.Contains(p.logs.String(), "a power cut may take") {
		t.Errorf("no warning about sync interval in the logs:\n%s", p.logs)
	}
	p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	p.want(t, "POST", "/l/"+pool+"/borrow", `{"ttl":30}`, 200, `"expires_in":7`)
}

func TestStoppedBeforeItHasStarted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	lines := newLogs()
	args := []string{"serve", "--http-addr", "127.0.0.1:0", "--data-dir", t.TempDir()}
	if code := run(ctx, args, strings.NewReader(""), io.Discard, lines, noEnv); code != exitDone {
		t.Errorf("exit code %d; logs:\n%s", code, lines)
	}
	lines.waitFor(t, "stopped")
}

func TestServeFails(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	kvslotstest.Must(t, err)
	defer taken.Close()
	dir := t.TempDir()
	startServe(t, noEnv, "--data-dir", dir)
	for _, c := range []struct {
		name string
		args []string
		by   string // the log, or the command
		want string
	}{
		{"address in use", []string{"--http-addr", taken.Addr().String(), "--data-dir", t.TempDir()}, `"message":"failed"`, "address already in use"},
		{"directory in use", []string{"--http-addr", "127.0.0.1:0", "--data-dir", dir}, `"message":"failed"`, "data directory " + dir + " is in use by another kvslots process"},
		{"no credentials file", []string{"--http-addr", "127.0.0.1:0", "--nats-url", "nats://" + taken.Addr().String(), "--nats-creds", "/nonexistent"}, "kvslots: ", "--nats-creds: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, _, stderr := call(t, noEnv, append([]string{"serve"}, c.args...)...)
			if code != exitFailed {
				t.Errorf("exit code %d", code)
			}
			if !strings.Contains(stderr, c.by) || !strings.Contains(stderr, c.want) {
				t.Errorf("stderr %s, want %q", stderr, c.want)
			}
			if strings.Contains(stderr, "hunter2") {
				t.Errorf("the password is in the logs:\n%s", stderr)
			}
		})
	}
}

// A first flush that fails ends the start at once, before openTimeout.
func TestServeFailsWhenNothingCanBeFlushed(t *testing.T) {
	dir := t.TempDir()
	first := startServe(t, noEnv, "--data-dir", dir)
	first.end(t)
	kept, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", "*", "keep"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("%v, %v", kept, err)
	}
	kvslotstest.Must(t, errors.Join(os.Remove(kept[0]), os.WriteFile(kept[0], nil, 0o600)))
	second := runServe(t, noEnv, "--data-dir", dir)
	if code := second.exitCode(t); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	if text := second.logs.String(); !strings.Contains(text, "stream KV_kvslots: ") || strings.Contains(text, "deadline") {
		t.Errorf("logs:\n%s", text)
	}
}

// closedPort returns an address without a listener.
func closedPort(t *testing.T) string {
	t.Helper()
	return addressOf(kvslotstest.Port(t))
}

func addressOf(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// runNATS runs an external NATS server, and returns its URL.
func runNATS(t *testing.T, options server.Options) (*server.Server, string) {
	t.Helper()
	options.NoLog, options.NoSigs = true, true
	srv, err := server.NewServer(&options)
	kvslotstest.Must(t, err)
	srv.Start()
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
		logtest.SearchDir(options.StoreDir)
	})
	if !srv.ReadyForConnections(time.Minute) {
		t.Fatal("NATS is not ready")
	}
	return srv, srv.ClientURL()
}
