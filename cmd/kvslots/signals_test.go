package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// startProcess runs serve in a process of its own.
func startProcess(t *testing.T, args ...string) (*exec.Cmd, *program) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{logs: newLogs()}
	process := exec.Command(self, append([]string{"serve", "--http-addr", "127.0.0.1:0"}, args...)...)
	process.Env = append(os.Environ(), asProgram+"=1")
	process.Stderr = p.logs
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { process.Process.Kill() })
	p.url = "http://" + p.logs.waitFor(t, "listening")["http"].(string)
	return process, p
}

func TestSignals(t *testing.T) {
	process, p := startProcess(t, "--data-dir", t.TempDir(), "--drain-wait", "1h")
	if err := process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.logs.waitFor(t, "draining")
	for draining := false; !draining; {
		_, answer := p.ask(t, "GET", "/ready", "")
		draining = answer == `{"status":"draining"}`
	}
	if err := process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := process.Wait(); err != nil {
		t.Errorf("%v; logs:\n%s", err, p.logs)
	}
	if !strings.Contains(p.logs.String(), `"message":"stopped"`) {
		t.Errorf("not stopped in order:\n%s", p.logs)
	}
}

// What was acknowledged before kill -9 is there afterwards, and the directory
// is not locked.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	process, p := startProcess(t, "--data-dir", dir)
	p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	p.want(t, "POST", "/l/"+pool+"/borrow", `{"ttl":600}`, 200, "")
	if err := process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	process.Wait()

	again := startServe(t, noEnv, "--data-dir", dir)
	again.want(t, "GET", "/l/"+pool, "", 200, `"count":1,"in_use":1`)
	again.want(t, "POST", "/l/"+pool+"/borrow", `{"ttl":600}`, 409, "")
}
