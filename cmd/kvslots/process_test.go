package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// soak skips a test that takes long.
func soak(t *testing.T) {
	t.Helper()
	if os.Getenv("KVSLOTS_SOAK") == "" {
		t.Skip("make soak")
	}
}

// gatewayProcess is serve in a process of its own.
type gatewayProcess struct {
	*program
	process *exec.Cmd
}

func startGateway(t *testing.T, args ...string) *gatewayProcess {
	t.Helper()
	process, p := serveProcess(t, args...)
	return &gatewayProcess{p, process}
}

// drain sends SIGTERM and waits for the end of the process.
func (p *gatewayProcess) drain(t *testing.T) {
	t.Helper()
	p.terminate(t)
	p.wantStop(t)
}

// drainUntil is drain of a gateway with a long --drain-wait, which ends when until returns.
func (p *gatewayProcess) drainUntil(t *testing.T, until func()) {
	t.Helper()
	const heeded, ignored = "the drain is cut short", "signal ignored"
	p.terminate(t)
	p.logs.waitFor(t, "draining")
	until()
	pace := rate.NewLimiter(rate.Every(100*time.Millisecond), 1)
	for sent := 1; !strings.Contains(p.logs.String(), heeded) && pace.Wait(t.Context()) == nil; sent++ {
		p.terminate(t) // is ignored if it comes too soon after the first one
		p.logs.Await(t, func(text string) bool {
			return strings.Contains(text, heeded) || strings.Count(text, ignored) == sent
		})
	}
	p.wantStop(t)
}

func (p *gatewayProcess) terminate(t *testing.T) {
	t.Helper()
	kvslotstest.Must(t, p.process.Process.Signal(syscall.SIGTERM))
}

// wantStop waits for the end of the process.
func (p *gatewayProcess) wantStop(t *testing.T) {
	t.Helper()
	if err := p.process.Wait(); err != nil {
		t.Errorf("%v; logs:\n%s", err, p.logs)
	}
	for line := range strings.Lines(p.logs.String()) {
		// On a busy machine the store may take a second to answer, and the gateway is not
		// ready then.
		if strings.Contains(line, `"level":"error"`) && !strings.Contains(line, "not ready") {
			t.Errorf("an error in the logs: %s", line)
		}
	}
}
