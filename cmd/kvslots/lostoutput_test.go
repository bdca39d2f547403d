//go:build unix

package main

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// What is taken, and cannot be told, is given back.
func TestLostOutput(t *testing.T) {
	p, natsURL := startNATSTransport(t)
	p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	_, limits := runNATS(t, jetStreamOptions(t))
	outputs := map[string]func() *os.File{
		"a pipe without a reader": func() *os.File {
			read, write, err := os.Pipe()
			kvslotstest.Must(t, err)
			read.Close()
			return write
		},
	}
	if _, err := os.Stat("/dev/full"); err == nil {
		outputs["a full disk"] = func() *os.File {
			full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			kvslotstest.Must(t, err)
			return full
		}
	}
	for name, open := range outputs {
		for what, args := range map[string][]string{
			"HTTP":      {"borrow", pool, "--server", p.url, "--ttl", "10m"},
			"NATS":      {"borrow", pool, "--nats-url", natsURL, "--ttl", "10m"},
			"JSON":      {"borrow", pool, "--server", p.url, "--ttl", "10m", "--json"},
			"of limits": {"cosmo", "acquire", "mail", "--jid", uuid.NewString(), "--duration", "10m", "--nats-url", limits},
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				out, errs := open(), newLogs()
				defer out.Close()
				process := newProcess(t, args...)
				process.Stdout, process.Stderr = out, errs
				startProcess(t, process)
				_ = process.Wait()
				if code := process.ProcessState.ExitCode(); code != exitFailed || !strings.Contains(errs.String(), "kvslots: write ") {
					t.Errorf("exit code %d:\n%s", code, errs)
				}
				p.want(t, "GET", "/l/"+pool, "", 200, `"in_use":0`)
				wantCall(t, 0, "", "", "cosmo", "list", "--nats-url", limits)
			})
		}
	}
}

// After a signal nothing is left of a command that waits: no place in line that is kept for a
// repeat, and no session.
func TestNothingIsLeftOfAWait(t *testing.T) {
	t.Parallel()
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--nats-addr", "127.0.0.1:0", "--resume-grace", "10m")
	p.want(t, "PUT", "/l/"+pool, `{"count":0}`, 200, "")
	holder := newLogs()
	self(t, holder, underName([]string{"--server", p.url}, `echo held; exec sleep 600`, "lock", "nightly")...)
	waitFor(t, func() bool { return strings.Contains(holder.String(), "held") })
	before := readStats(t, p)
	for _, transport := range [][]string{{"--server", p.url}, {"--nats-url", p.natsURL(t)}} {
		for name, args := range map[string][]string{
			"borrow": append([]string{"borrow", pool, "--wait", "10m"}, transport...),
			"run":    shell(transport, `echo ran`, "--wait", "forever"),
			"lock":   underName(transport, `echo ran`, "lock", "nightly"),
		} {
			for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
				t.Run(strings.Join([]string{transport[0], name, sig.String()}, " "), func(t *testing.T) {
					out := newLogs()
					process := self(t, out, args...)
					waitFor(t, func() bool { return readStats(t, p).waiting > before.waiting })
					if code := endBy(t, process, sig); code != 128+int(sig) || strings.Contains(out.String(), "ran") {
						t.Errorf("exit code %d:\n%s", code, out)
					}
					waitFor(t, func() bool { return readStats(t, p) == before })
				})
			}
		}
	}
}

// left is what commands may leave behind at a gateway.
type left struct{ waiting, sessions int }

func readStats(t *testing.T, p *program) (l left) {
	t.Helper()
	_, body := p.ask(t, "GET", "/v1/stats", "")
	var stats struct {
		Connections int
		Locks       []struct{ Waiters int }
	}
	kvslotstest.Must(t, json.Unmarshal([]byte(body), &stats))
	_, body = p.ask(t, "GET", "/l/"+pool, "")
	var state struct{ Waiting int }
	kvslotstest.Must(t, json.Unmarshal([]byte(body), &state))
	l = left{state.Waiting, stats.Connections}
	for _, lock := range stats.Locks {
		l.waiting += lock.Waiters
	}
	return l
}
