//go:build unix

package main

import (
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// start calls the program in the background.
func start(t *testing.T, args ...string) (out *logtest.Output, code chan int) {
	t.Helper()
	out, code = &logtest.Output{}, make(chan int, 1)
	go func() { code <- run(t.Context(), args, strings.NewReader(""), out, searched(out), noEnv) }()
	return out, code
}

// relayTransports are the transports to a gateway of serve, through a
// relay.
var relayTransports = []struct {
	name, flag, scheme string
	target             func(t *testing.T, p *program) string
}{
	{"http", "--server", "http://", func(_ *testing.T, p *program) string { return strings.TrimPrefix(p.url, "http://") }},
	{"nats", "--nats-url", "nats://", func(t *testing.T, p *program) string { return strings.TrimPrefix(p.natsURL(t), "nats://") }},
}

// The gateway is being restarted when the command ends: the slot is returned as
// soon as there is a gateway again.
func TestRunCommandReturnsAfterARestart(t *testing.T) {
	t.Parallel() // waits for seconds
	for _, transport := range relayTransports {
		t.Run(transport.name, func(t *testing.T) {
			dir, way, end := t.TempDir(), newRelay(t), t.TempDir()
			p := startServe(t, noEnv, "--data-dir", dir, "--nats-addr", "127.0.0.1:0")
			way.open(t, transport.target(t, p))
			p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
			out, code := start(t, shell([]string{transport.flag, transport.scheme + way.addr},
				`echo runs; while [ -e `+end+` ]; do sleep 0.02; done; exit 3`, "--ttl", "10m")...)
			waitFor(t, func() bool { return strings.Contains(out.String(), "runs") })
			way.cut()
			p.stop()
			p.exitCode(t)
			kvslotstest.Must(t, syscall.Rmdir(end))
			waitFor(t, func() bool { return strings.Contains(out.String(), "trying to return the slot") })

			again := startServe(t, noEnv, "--data-dir", dir, "--nats-addr", "127.0.0.1:0")
			again.want(t, "GET", "/l/"+pool, "", 200, `"in_use":1`)
			way.open(t, transport.target(t, again))
			if got := <-code; got != 3 {
				t.Errorf("exit code %d:\n%s", got, out)
			}
			again.want(t, "GET", "/l/"+pool, "", 200, `"in_use":0`)
		})
	}
}

// It is tried for as long as the lease lasts, and no longer.
func TestRunCommandGivesUpReturning(t *testing.T) {
	t.Parallel() // waits for seconds
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	server := refusing(t, p, "/return", http.StatusBadGateway)
	began := time.Now()
	wantCall(t, 3, "", "kvslots: HTTP status 502; trying .*\nkvslots: the slot was not returned, and is free when its lease ends: HTTP status 502\n",
		shell([]string{"--server", server}, `exit 3`, "--ttl", "2s")...)
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("gave up after %s", took)
	}
}

// What is refused for good is not tried again.
func TestRunCommandMayNotReturn(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	server := refusing(t, p, "/return", http.StatusUnauthorized)
	wantCall(t, 3, "", "kvslots: the slot was not returned, and is free when its lease ends: HTTP status 401; .* requires a token: .*\n",
		shell([]string{"--server", server}, `exit 3`, "--ttl", "10m")...)
}

// A second signal ends the tries, but not one that comes with the first, as
// timeout(1) sends it.
func TestRunCommandSecondSignalWhileReturning(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	var mu sync.Mutex
	returns := 0
	server := between(t, p, func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/return") {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		returns++
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	tried := func() int {
		mu.Lock()
		defer mu.Unlock()
		return returns
	}
	out := newLogs()
	process := self(t, out, shell([]string{"--server", server}, `trap 'exit 7' TERM; echo ready; while :; do sleep 0.02; done`, "--ttl", "10m")...)
	waitFor(t, func() bool { return strings.Contains(out.String(), "ready") })
	send := func() {
		t.Helper()
		kvslotstest.Must(t, process.Process.Signal(syscall.SIGTERM))
	}
	first := time.Now()
	send()
	send()
	waitFor(t, func() bool { return tried() >= 2 })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = process.Wait()
	}()
	for waits := true; waits; { // when it noted the first one is not known
		select {
		case <-ended:
			waits = false
		case <-time.After(50 * time.Millisecond):
			_ = process.Process.Signal(syscall.SIGTERM)
		}
	}
	if took := time.Since(first); took < time.Second {
		t.Errorf("gave up after %s", took)
	}
	if code := process.ProcessState.ExitCode(); code != 7 || !strings.Contains(out.String(), "the slot was not returned") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

// waiters are the commands that wait for a slot.
func waiters(transport []string, flags ...string) map[string][]string {
	return map[string][]string{
		"run":    shell(transport, `echo ran`, flags...),
		"borrow": append(append([]string{"borrow", pool}, flags...), transport...),
	}
}

// A wait goes on until the gateway accepts connections.
func TestWaitThroughRefusedConnections(t *testing.T) {
	for _, transport := range relayTransports {
		p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--nats-addr", "127.0.0.1:0")
		p.want(t, "PUT", "/l/"+pool, `{"count":2}`, 200, "")
		for _, command := range []string{"run", "borrow"} {
			t.Run(command+" "+transport.name, func(t *testing.T) {
				way := newRelay(t)
				args := waiters([]string{transport.flag, transport.scheme + way.addr}, "--wait", "5m")[command]
				out, code := start(t, args...)
				waitFor(t, func() bool { return strings.Contains(out.String(), "trying again") })
				way.open(t, transport.target(t, p))
				if got := <-code; got != 0 || !strings.Contains(out.String(), "ran") && !strings.Contains(out.String(), "KVSLOTS_LEASE=") {
					t.Errorf("exit code %d:\n%s", got, out)
				}
			})
		}
	}
}

// A wait whose gateway dies continues at the next gateway.
func TestWaitThroughARestart(t *testing.T) {
	t.Parallel()
	for _, transport := range relayTransports {
		t.Run(transport.name, func(t *testing.T) {
			dir, way := t.TempDir(), newRelay(t)
			p := startServe(t, noEnv, "--data-dir", dir, "--nats-addr", "127.0.0.1:0")
			way.open(t, transport.target(t, p))
			p.want(t, "PUT", "/l/"+pool, `{"count":0}`, 200, "")
			out, code := start(t, shell([]string{transport.flag, transport.scheme + way.addr}, `echo ran`, "--wait", "5m")...)
			p.waitForState(t, `"waiting":1`)
			way.cut()
			p.stop()
			p.exitCode(t)
			waitFor(t, func() bool { return strings.Contains(out.String(), "trying again") })
			again := startServe(t, noEnv, "--data-dir", dir, "--nats-addr", "127.0.0.1:0")
			way.open(t, transport.target(t, again))
			again.waitForState(t, `"waiting":1`)
			again.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
			if got := <-code; got != 0 || !strings.Contains(out.String(), "ran") {
				t.Errorf("exit code %d:\n%s", got, out)
			}
			again.want(t, "GET", "/l/"+pool, "", 200, `"in_use":0`)
		})
	}
}

// When the wait is over, the error is that of the last answer.
func TestWaitIsOver(t *testing.T) {
	t.Parallel() // waits for seconds
	for _, c := range []struct {
		name   string
		status int
		after  string
		wait   string
		code   int
		stderr string
	}{
		{"away", 503, "", "1s", exitNoGateway, "kvslots: HTTP status 503; trying again\nkvslots: HTTP status 503\n"},
		{"away for long", 429, "3600", "1s", exitNoGateway, "kvslots: HTTP status 429\n"},
		{"without a wait", 503, "1", "0", exitNoGateway, "kvslots: HTTP status 503\n"},
		{"refused for good", 401, "", "5m", exitRefused, "kvslots: HTTP status 401; http://[0-9.:]+ requires a token: give --auth-token-file\n"},
		{"failed", 500, "", "5m", exitFailed, "kvslots: HTTP status 500\n"},
		{"no slot", 409, "", "1s", exitNoSlot, "kvslots: HTTP status 409\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &program{url: fixedAnswer(t, 500, "")}
			server := between(t, p, func(w http.ResponseWriter, _ *http.Request) bool {
				if c.after != "" {
					w.Header().Set("Retry-After", c.after)
				}
				w.WriteHeader(c.status)
				return true
			})
			for _, args := range waiters([]string{"--server", server}, "--wait", c.wait) {
				wantCall(t, c.code, "", c.stderr, args...)
			}
		})
	}
}

// After a refusal a request asks for whole seconds, and the fraction of a second that is
// left is used as well.
func TestWaitToItsEnd(t *testing.T) {
	t.Parallel() // waits for seconds
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	p.want(t, "PUT", "/l/"+pool, `{"count":0}`, 200, "")
	first := true
	server := between(t, p, func(w http.ResponseWriter, r *http.Request) bool {
		refuse := first
		if first = false; refuse {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return refuse
	})
	began := time.Now()
	wantCall(t, exitNoSlot, "", "kvslots: HTTP status 503; trying again\nkvslots: no resource available; place 1 in the line\n",
		"borrow", pool, "--server", server, "--wait", "2s")
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("waited for %s only", took)
	}
}

// A signal ends the repetitions.
func TestWaitIsInterrupted(t *testing.T) {
	for command, args := range waiters([]string{"--server", "http://" + newRelay(t).addr}, "--wait", "5m") {
		t.Run(command, func(t *testing.T) {
			out := newLogs()
			process := self(t, out, args...)
			waitFor(t, func() bool { return strings.Contains(out.String(), "trying again") })
			if code := endBy(t, process, syscall.SIGTERM); code != 128+15 || strings.Contains(out.String(), pool) {
				t.Errorf("exit code %d:\n%s", code, out)
			}
		})
	}
}
