//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// readerless returns the end of a pipe whose reader has gone.
func readerless(t *testing.T) *os.File {
	t.Helper()
	read, write, err := os.Pipe()
	kvslotstest.Must(t, err)
	read.Close()
	t.Cleanup(func() { write.Close() })
	return write
}

// A gateway whose log is read by no one any more goes on.
func TestServeWithoutAReaderOfItsLog(t *testing.T) {
	read, write, err := os.Pipe()
	kvslotstest.Must(t, err)
	process := newProcess(t, "serve", "--http-addr", "127.0.0.1:0", "--data-dir", t.TempDir(), "--log-level", "debug")
	process.Stderr = write
	startProcess(t, process)
	write.Close()
	logs := newLogs()
	for buffer := make([]byte, 4096); !strings.Contains(logs.String(), `"listening"`); {
		n, err := read.Read(buffer)
		kvslotstest.Must(t, err)
		_, _ = logs.Write(buffer[:n])
	}
	read.Close()
	p := &program{logs: logs, url: "http://" + logs.waitFor(t, "listening")["http"].(string)}
	p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "") // each request is a line
	p.want(t, "DELETE", "/l/"+pool, "", 200, "")
	p.want(t, "GET", "/l/"+pool, "", 404, "")
}

// No message of a command that runs another one matters more than the lock: its reader may have gone.
func TestRunWithoutAReader(t *testing.T) {
	t.Parallel()
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--max-ttl", "20s")
	p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	_, limits := runNATS(t, jetStreamOptions(t))
	transport := []string{"--server", p.url}
	ran := filepath.Join(t.TempDir(), "ran")
	// The gateway grants less than is asked for, which is printed before the command starts.
	for name, args := range map[string][]string{
		"lock":        underName(transport, "echo $KVSLOTS_FENCE >"+ran+"; exit 3", "lock", "nightly"),
		"sem":         underName(transport, "echo $KVSLOTS_FENCE >"+ran+"; exit 3", "sem", "jobs", "--limit", "1"),
		"run":         shell(transport, "echo $KVSLOTS_FENCE >"+ran+"; exit 3", "--ttl", "30s"),
		"cosmo run":   {"cosmo", "run", "mail", "--nats-url", limits, "--", "/bin/sh", "-c", "echo >" + ran + "; exit 3"},
		"no command":  underName(transport, "echo", "lock", "a b"),
		"lost output": shell(transport, "echo ran", "--ttl", "10s", "--json"),
	} {
		t.Run(name, func(t *testing.T) {
			process := newProcess(t, args...)
			process.Stdout, process.Stderr = readerless(t), readerless(t)
			startProcess(t, process)
			_ = process.Wait()
			want := map[string]int{"no command": exitUsage, "lost output": exitFailed}[name]
			if want == 0 {
				want = 3
				if err := os.Remove(ran); err != nil {
					t.Error("the command has not run:", err)
				}
			}
			if code := process.ProcessState.ExitCode(); code != want {
				t.Errorf("exit code %d, want %d", code, want)
			}
			p.want(t, "GET", "/l/"+pool, "", 200, `"in_use":0`)
		})
	}
	t.Run("evicted", func(t *testing.T) {
		told := filepath.Join(t.TempDir(), "told")
		process := newProcess(t, underName(transport, `exec 2>/dev/null; trap 'echo >`+told+`; exit' TERM; echo $KVSLOTS_FENCE >`+ran+`.new; mv `+ran+`.new `+ran+`; while :; do sleep 0.05; done`, "lock", "evicted", "--ttl", "10s")...)
		process.Stderr = readerless(t)
		startProcess(t, process)
		waitFor(t, func() bool { _, err := os.Stat(ran); return err == nil })
		fence, err := os.ReadFile(ran)
		kvslotstest.Must(t, err)
		wantCall(t, 0, "ended the lease of .*", "", append([]string{"evict", "--key", "evicted", "--position", "0", "--fence", strings.TrimSpace(string(fence))}, transport...)...)
		_ = process.Wait()
		if code := process.ProcessState.ExitCode(); code != exitLost {
			t.Errorf("exit code %d", code)
		}
		if _, err := os.Stat(told); err != nil {
			t.Error("the command was not told:", err)
		}
	})
	t.Run("waits", func(t *testing.T) {
		holder := newLogs()
		held := self(t, holder, underName(transport, `echo held; exec sleep 600`, "lock", "waited")...)
		waitFor(t, func() bool { return strings.Contains(holder.String(), "held") })
		process := newProcess(t, underName(transport, `exit 3`, "lock", "waited")...)
		process.Stderr = readerless(t)
		startProcess(t, process)
		p.eventually(t, "/v1/stats", `"waiters":1`)
		kvslotstest.Must(t, held.Process.Signal(os.Interrupt))
		_ = process.Wait()
		if code := process.ProcessState.ExitCode(); code != 3 {
			t.Errorf("exit code %d", code)
		}
	})
}

// What could not be printed is an error.
func TestRegisterWithoutAReader(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	id := uuid.NewString()
	process := newProcess(t, "register", id, "--count", "1", "--server", p.url)
	process.Stdout = readerless(t)
	startProcess(t, process)
	_ = process.Wait()
	if process.ProcessState.Success() {
		t.Error("it says that it has printed its answer")
	}
}
