package main

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// serveProcess runs serve in a process of its own.
func serveProcess(t *testing.T, args ...string) (*exec.Cmd, *program) {
	t.Helper()
	p := &program{logs: newLogs()}
	t.Cleanup(func() { searchDataDir(args) })
	process := newProcess(t, append([]string{"serve", "--http-addr", "127.0.0.1:0"}, args...)...)
	process.Stderr = p.logs
	startProcess(t, process)
	t.Cleanup(p.searchMetrics)
	p.url = "http://" + p.logs.waitFor(t, "listening")["http"].(string)
	return process, p
}

// timeout(1) sends SIGTERM twice. The second signal does not cut the drain short; a
// later one does.
func TestSignals(t *testing.T) {
	process, p := drainDespiteTwo(t)
	for draining := false; !draining; { // the log line comes shortly before
		_, answer := p.ask(t, "GET", "/ready", "")
		draining = answer == `{"status":"draining"}`
	}
	p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	p.want(t, "POST", "/l/"+pool+"/borrow", `{"ttl":30}`, 503, "")

	const taken = "the drain is cut short"
	for sent := 2; !strings.Contains(p.logs.String(), taken); sent++ {
		kvslotstest.Must(t, process.Process.Signal(syscall.SIGTERM))
		// The test sends the next signal only after the process has logged this one,
		// so the process never gets a signal that it does not handle.
		p.logs.Await(t, func(text string) bool {
			return strings.Count(text, "signal ignored") == sent || strings.Contains(text, taken)
		})
		time.Sleep(10 * time.Millisecond)
	}
	if err := process.Wait(); err != nil {
		t.Errorf("%v; logs:\n%s", err, p.logs)
	}
	if !strings.Contains(p.logs.String(), `"message":"stopped"`) {
		t.Errorf("not stopped in order:\n%s", p.logs)
	}
}

// drainDespiteTwo runs serve with a long drain and sends it two signals in quick
// succession. If the machine is so slow that they arrive a second apart, it tries again.
func drainDespiteTwo(t *testing.T) (*exec.Cmd, *program) {
	t.Helper()
	for {
		process, p := serveProcess(t, "--data-dir", t.TempDir(), "--drain-wait", "1h")
		began := time.Now()
		kvslotstest.Must(t, process.Process.Signal(syscall.SIGTERM))
		p.logs.waitFor(t, "draining") // otherwise the kernel could merge the signals
		kvslotstest.Must(t, process.Process.Signal(syscall.SIGTERM))
		logged := p.logs.Await(t, func(text string) bool {
			return strings.Contains(text, "signal ignored") || strings.Contains(text, "stopped")
		})
		if strings.Contains(logged, "signal ignored") {
			return process, p
		}
		if time.Since(began) < time.Second {
			t.Fatalf("a second signal ended the drain:\n%s", p.logs)
		}
		process.Wait()
	}
}
