//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// shell returns the arguments of "kvslots run" for a shell script.
func shell(transport []string, script string, flags ...string) []string {
	args := append(append([]string{"run", pool}, flags...), transport...)
	return append(args, "--", "/bin/sh", "-c", script)
}

func TestRunCommand(t *testing.T) {
	t.Parallel()
	overTransports(t, func(t *testing.T, p *program, transport []string) {
		p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
		idle := func() {
			t.Helper()
			p.want(t, "GET", "/l/"+pool, "", 200, `"in_use":0`)
		}
		wantCall(t, 0, "0 [-0-9a-f]{36} [0-9]{16}\n", "", shell(transport, `echo $KVSLOTS_POSITION $KVSLOTS_LEASE $KVSLOTS_FENCE`)...)
		idle()
		wantCall(t, 7, "", "oops\n", shell(transport, `echo oops >&2; exit 7`)...)
		idle()
		wantCall(t, 128+9, "", "", shell(transport, `kill -9 $$`)...)
		idle()
		wantCall(t, 0, `\{"lease":"[-0-9a-f]{36}","position":0,"expires_at_unix":[0-9]+,"expires_in":30,"fence":[0-9]+\}`+"\nhi\n", "",
			shell(transport, `echo hi`, "--json")...)
		wantCall(t, 127, "", `kvslots: .*no-such-command.*not found.*\n`, append(append([]string{"run", pool}, transport...), "--", "no-such-command")...)
		file := filepath.Join(t.TempDir(), "data")
		kvslotstest.Must(t, os.WriteFile(file, nil, 0o600))
		wantCall(t, 126, "", `kvslots: .*permission denied\n`, append(append([]string{"run", pool}, transport...), "--", file)...)
		idle()

		p.want(t, "POST", "/l/"+pool+"/borrow", `{"ttl":60}`, 200, "")
		wantCall(t, 75, "", "kvslots: no resource available: taken by an unnamed holder, for [0-9]+s; place 1 in the line\n", shell(transport, `echo ran`)...)
		wantCall(t, 75, `\{"error":"no resource available: taken by .+; place 1 in the line"\}`+"\n", "kvslots: no resource available: taken by .+; place 1 in the line\n", shell(transport, `echo ran`, "--json", "--wait", "1")...)
		p.want(t, "DELETE", "/l/"+pool, "", 200, "")
		wantCall(t, 1, "", "kvslots: no such pool\n", shell(transport, `echo ran`)...)
	})
}

func TestRunCommandReadsStdin(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	out, errs := &logtest.Output{}, &logtest.Log{}
	args := []string{"run", pool, "--server", p.url, "--", "cat"}
	if code := run(t.Context(), args, strings.NewReader("through"), out, errs, noEnv); code != 0 || out.String() != "through" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, out, errs)
	}
}

// At a gateway without renewal the command ends before its lease, by the server's record,
// whether or not it handles SIGTERM.
func TestRunCommandEndsBeforeItsLease(t *testing.T) {
	t.Parallel() // waits for seconds
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	older := withoutRenewal(t, p)
	p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	for _, c := range []struct {
		name, script, output string
		killAfter, ttl       string
	}{
		// The times are long, since a busy machine may delay the shell.
		{"heeds SIGTERM", `trap 'echo told; exit 3' TERM; while :; do ` + showLife + `; done`, "told\n", "4s", "8s"},
		{"heeds nothing", `trap '' TERM; while :; do ` + showLife + `; done`, "", "500ms", "3s"},
		{"a child that heeds nothing", `(trap '' TERM; while :; do ` + showLife + `; done) & wait`, "", "500ms", "3s"},
		{"stopped", `kill -STOP $$; sleep 60`, "", "500ms", "3s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := wantCall(t, 124, `\{.*\}`+"\n"+signsOfLife+c.output,
				"(?:kvslots: the command is stopped, [^\n]*\n)?kvslots: the gateway cannot renew leases; [^\n]*\n(?:.*\n)?kvslots: the lease is about to end; ending the command\n.*",
				shell([]string{"--server", older}, c.script, "--ttl", c.ttl, "--kill-after", c.killAfter, "--json")...)
			ended := lastSign(out)
			var lease leaseAnswer
			kvslotstest.Must(t, json.NewDecoder(strings.NewReader(out)).Decode(&lease))
			// expires_at_unix is rounded down to whole seconds, so this check is strict.
			if end := time.Unix(lease.ExpiresAtUnix+1, 0); !ended.Before(end) {
				t.Errorf("ended at %s, its lease at %s", ended, end)
			}
			p.want(t, "GET", "/l/"+pool, "", 200, `"in_use":0`)
		})
	}
}

// The wait does not shorten the command's time: a lease with too little time left is
// exchanged for a new one.
func TestRunCommandAfterALongWait(t *testing.T) {
	t.Parallel() // waits for seconds
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	for _, server := range []string{p.url, withoutRenewal(t, p)} {
		// The times are long, since a busy machine may delay the shell.
		p.want(t, "POST", "/l/"+pool+"/borrow", `{"ttl":7}`, 200, "")
		wantCall(t, 0, "ran\n", "", shell([]string{"--server", server}, `echo ran`, "--ttl", "6s", "--wait", "1m")...)
		p.want(t, "GET", "/l/"+pool, "", 200, `"in_use":0`)
	}
}

func TestRunCommandWithMoreThanIsLent(t *testing.T) {
	t.Parallel() // waits for seconds
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--max-ttl", "2s")
	p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	transport := []string{"--server", p.url}
	const short = "kvslots: the gateway granted a lease of only 2s, not of 30s\n"
	wantCall(t, 1, "", "kvslots: the gateway grants leases of at most 2s, .*\n", shell(transport, `echo ran`, "--kill-after", "10s")...)
	p.want(t, "GET", "/l/"+pool, "", 200, `"in_use":0`)
	wantCall(t, 0, "ran\n", short, shell(transport, `sleep 3; echo ran`, "--kill-after", "500ms")...)
	wantCall(t, 0, ".*EXPIRES_IN=2\nexport .*\n", short, append([]string{"borrow", pool}, transport...)...)
	wantCall(t, 0, ".*EXPIRES_IN=2\nexport .*\n", "", append([]string{"borrow", pool, "--ttl", "2s", "--wait", "20s"}, transport...)...)
}

// The lease is renewed for as long as the command runs.
func TestRunCommandRenews(t *testing.T) {
	t.Parallel() // waits for seconds
	overTransports(t, testRunCommandRenews)
}

func testRunCommandRenews(t *testing.T, p *program, transport []string) {
	p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	end := filepath.Join(t.TempDir(), "end")
	done := make(chan struct{})
	go func() {
		defer close(done)
		wantCall(t, 5, "", "", shell(transport, `sleep 5; echo >`+end+`; exit 5`, "--ttl", "3s")...)
	}()
	p.waitForState(t, `"in_use":1`)
	p.want(t, "POST", "/l/"+pool+"/borrow", `{"ttl":1,"wait":60}`, 200, "")
	if _, err := os.Stat(end); err != nil {
		t.Errorf("another client held the slot while the command ran: %v", err)
	}
	<-done
}

// If no gateway can be reached for a renewal, the command ends before its lease, by the
// server's record.
func TestRunCommandLosesTheGateways(t *testing.T) {
	t.Parallel() // waits for seconds
	p, url := startNATSTransport(t)
	url, cut := throughWire(t, url)
	p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	out, code := start(t, shell([]string{"--nats-url", url}, `trap '' TERM; while :; do `+showLife+`; done`, "--ttl", "3s", "--kill-after", "500ms")...)
	waitFor(t, func() bool { return strings.Contains(out.String(), "alive") })
	cut()
	_, answer := p.ask(t, "POST", "/l/"+pool+"/borrow", `{"ttl":60,"wait":60}`)
	free := time.Now()
	if got := <-code; got != exitLost || !strings.Contains(answer, `"position":0`) {
		t.Errorf("exit code %d, then %s", got, answer)
	}
	if text := out.String(); !strings.Contains(text, "kvslots: the lease is about to end; it was not renewed: NATS: ") {
		t.Errorf("no reason for the end of the lease:\n%s", regexp.MustCompile(signsOfLife).ReplaceAllString(text, ""))
	}
	if left := free.Sub(lastSign(out.String())); left < 0 {
		t.Errorf("the command ran %s longer than its lease", -left)
	}
}

// A script that runs showLife over and over has signsOfLife as its output.
const (
	showLife    = `date +alive%s%N; sleep 0.02`
	signsOfLife = `(?:alive[0-9]+\n)*`
)

// lastSign returns the time of the last sign of life in an output; zero if there is none.
func lastSign(output string) time.Time {
	signs := regexp.MustCompile(`alive([0-9]+)`).FindAllStringSubmatch(output, -1)
	if len(signs) == 0 {
		return time.Time{}
	}
	var last int64
	fmt.Sscan(signs[len(signs)-1][1], &last)
	return time.Unix(0, last)
}

// throughWire forwards connections to a NATS server until they are cut.
func throughWire(t *testing.T, natsURL string) (through string, cut func()) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	kvslotstest.Must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	carry := func(to, from net.Conn) {
		defer to.Close()
		_, _ = io.Copy(to, from)
	}
	running.Go(func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", strings.TrimPrefix(natsURL, "nats://"))
			if err != nil {
				near.Close()
				continue
			}
			context.AfterFunc(ctx, func() { near.Close() })
			running.Go(func() { carry(near, far) })
			running.Go(func() { carry(far, near) })
		}
	})
	cut = func() {
		ln.Close()
		cancel()
		running.Wait()
	}
	t.Cleanup(cut)
	return "nats://" + ln.Addr().String(), cut
}

// The command ends when another client has returned its lease.
func TestRunCommandLosesItsLease(t *testing.T) {
	t.Parallel() // waits for seconds
	overTransports(t, func(t *testing.T, p *program, transport []string) {
		for why, end := range map[string]func(lease string){
			"lease not held": func(lease string) { p.want(t, "POST", "/l/"+pool+"/return", `{"lease":"`+lease+`"}`, 200, "true") },
			"no such pool":   func(string) { p.want(t, "DELETE", "/l/"+pool, "", 200, "") },
		} {
			p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
			out, code := start(t, shell(transport, `echo runs $KVSLOTS_LEASE.; exec sleep 60`, "--ttl", "3s")...)
			lease := regexp.MustCompile(`runs (\S+)\.`)
			waitFor(t, func() bool { return lease.MatchString(out.String()) })
			end(lease.FindStringSubmatch(out.String())[1])
			if got := <-code; got != exitLost || !strings.HasSuffix(out.String(), "kvslots: the lease is lost: "+why+"; ending the command\n") {
				t.Errorf("exit code %d:\n%s", got, out)
			}
		}
	})
}

// self returns kvslots as a command in a process of its own.
func self(t *testing.T, out *logs, args ...string) *exec.Cmd {
	t.Helper()
	process := newProcess(t, args...)
	process.Stdout, process.Stderr = out, out
	process.WaitDelay = 10 * time.Second
	startProcess(t, process)
	return process
}

var childPID = regexp.MustCompile(`pid ([0-9]+)`)

// run passes signals to the command, and exits with the command's exit code.
func TestRunCommandPassesSignals(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	for sig, name := range map[syscall.Signal]string{
		syscall.SIGTERM: "TERM", syscall.SIGINT: "INT", syscall.SIGHUP: "HUP", syscall.SIGUSR1: "USR1", syscall.SIGQUIT: "QUIT",
	} {
		t.Run(name, func(t *testing.T) {
			out := newLogs()
			script := `trap 'echo got ` + name + `; exit 9' ` + name + `; echo ready; while :; do sleep 0.05; done`
			process := self(t, out, shell([]string{"--server", p.url}, script)...)
			waitFor(t, func() bool { return strings.Contains(out.String(), "ready") })
			if code := endBy(t, process, sig); code != 9 || !strings.Contains(out.String(), "got "+name) {
				t.Errorf("exit code %d:\n%s", code, out)
			}
			p.want(t, "GET", "/l/"+pool, "", 200, `"in_use":0`)
		})
	}
}

// A signal that is ignored when kvslots starts, as SIGHUP is under nohup(1), stays
// ignored: while kvslots waits, while the command runs, and by the command.
func TestRunCommandIgnoresIgnoredSignals(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	for name, sig := range map[string]syscall.Signal{"HUP": syscall.SIGHUP, "INT": syscall.SIGINT} {
		t.Run(name, func(t *testing.T) {
			p.want(t, "PUT", "/l/"+pool, `{"count":0}`, 200, "")
			script := `kill -` + name + ` $$; trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done`
			out, process := newLogs(), newProcess(t, shell([]string{"--server", p.url}, script, "--wait", "50s")...)
			ignore := []string{"/bin/sh", "-c", `trap "" ` + name + `; exec "$@"`, "sh"}
			process.Path, process.Args = ignore[0], append(ignore, append([]string{process.Path}, process.Args[1:]...)...)
			process.Stdout, process.Stderr = out, out
			startProcess(t, process)
			send := func(sig syscall.Signal) {
				t.Helper()
				kvslotstest.Must(t, process.Process.Signal(sig))
			}
			p.waitForState(t, `"waiting":1`)
			send(sig)
			p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
			waitFor(t, func() bool { return strings.Contains(out.String(), "ready") })
			send(sig)
			send(syscall.SIGTERM)
			_ = process.Wait()
			if code := process.ProcessState.ExitCode(); code != 9 {
				t.Errorf("exit code %d:\n%s", code, out)
			}
			p.want(t, "GET", "/l/"+pool, "", 200, `"in_use":0`)
		})
	}
}

func (p *program) waitForState(t *testing.T, want string) {
	t.Helper()
	waitFor(t, func() bool {
		_, state := p.ask(t, "GET", "/l/"+pool, "")
		return strings.Contains(state, want)
	})
}

// isDead reports whether a process has ended. Its new parent may take its time to wait for it.
func isDead(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return syscall.Kill(pid, 0) != nil || err == nil && strings.Contains(string(stat), ") Z ")
}

// kill -9 of kvslots also kills the command, with all that it has started.
func TestRunCommandKilled(t *testing.T) {
	t.Parallel() // waits for seconds
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	script := writeFile(t, "job.sh", "sleep 60 &\necho pid $!\nwait\necho done\n")
	for name, command := range map[string][]string{
		"the command":          {"--", "/bin/sh", "-c", `echo pid $$; exec sleep 60`},
		"its child":            {"--", "/bin/sh", "-c", `/bin/sh -c 'echo pid $$; sleep 60; echo'; echo`},
		"a child of -c":        {"-c", `/bin/sh -c 'echo pid $$; sleep 60; echo'; echo`},
		"a script's child":     {"--", "/bin/sh", script},
		"an ignored hangup":    {"--", "/bin/sh", "-c", `trap '' HUP TERM; sleep 60 & echo pid $!; wait`},
		"its output is closed": {"--", "/bin/sh", "-c", `sleep 60 & echo pid $!; exec >/dev/null 2>&1; wait`},
	} {
		t.Run(name, func(t *testing.T) {
			out := newLogs()
			process := self(t, out, append([]string{"lock", strings.ReplaceAll(name, " ", "-"), "--server", p.url}, command...)...)
			waitFor(t, func() bool { return childPID.MatchString(out.String()) })
			kvslotstest.Must(t, process.Process.Kill())
			_ = process.Wait()
			var pid int
			fmt.Sscan(childPID.FindStringSubmatch(out.String())[1], &pid)
			waitFor(t, func() bool { return isDead(pid) })
		})
	}
}
