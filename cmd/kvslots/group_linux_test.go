package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// The lock is held until the command's process group is empty, or with --close until the command has ended.
func TestLockIsHeldForTheGroup(t *testing.T) {
	t.Parallel()
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	transport := []string{"--server", p.url}
	for name, run := range map[string]func(t *testing.T, args ...string) (*exec.Cmd, fmt.Stringer){
		"without a terminal": func(t *testing.T, args ...string) (*exec.Cmd, fmt.Stringer) {
			process, out := newProcess(t, args...), newLogs()
			process.Stdout, process.Stderr = out.pipe(t), out.pipe(t)
			startProcess(t, process)
			return process, out
		},
		"at a terminal": func(t *testing.T, args ...string) (*exec.Cmd, fmt.Stringer) {
			process, term := onTerminal(t, args...)
			return process, term.shown
		},
	} {
		end := filepath.Join(t.TempDir(), "end")
		script := `trap '' HUP; (while [ -d ` + filepath.Dir(end) + ` ] && [ ! -e ` + end + ` ]; do sleep 0.05; done) >/dev/null 2>&1 & echo pid $!; exit 3`
		key := strings.ReplaceAll(name, " ", "-")
		t.Run(name, func(t *testing.T) {
			process, out := run(t, underName(transport, script, "lock", key)...)
			waitFor(t, func() bool {
				return strings.Contains(out.String(), "kvslots: the command has ended, and has left processes in its group")
			})
			wantCall(t, 75, "", ".*taken by.*", underName(transport, `echo ran`, "lock", key, "-n")...)
			kvslotstest.Must(t, os.WriteFile(end, nil, 0o600))
			_ = process.Wait()
			if code := process.ProcessState.ExitCode(); code != 3 {
				t.Errorf("exit code %d", code)
			}
			wantCall(t, 0, "ran\n", "", underName(transport, `echo ran`, "lock", key, "-n")...)
		})
		t.Run(name+" with --close", func(t *testing.T) {
			kvslotstest.Must(t, os.Remove(end))
			process, out := run(t, underName(transport, script, "lock", key, "--close")...)
			_ = process.Wait()
			if code := process.ProcessState.ExitCode(); code != 3 {
				t.Errorf("exit code %d", code)
			}
			wantCall(t, 0, "ran\n", "", underName(transport, `echo ran`, "lock", key, "-n")...)
			var left int
			waitFor(t, func() bool { return childPID.MatchString(out.String()) })
			fmt.Sscan(childPID.FindStringSubmatch(out.String())[1], &left)
			if isDead(left) {
				t.Error("what the command has left behind was ended")
			}
			kvslotstest.Must(t, os.WriteFile(end, nil, 0o600))
		})
		t.Run(name+" the lease ends", func(t *testing.T) {
			kvslotstest.Must(t, os.Remove(end))
			process, out := run(t, underName(transport, `echo fence $KVSLOTS_FENCE.; `+script, "lock", key, "--ttl", "10s")...)
			var fence string
			waitFor(t, func() bool { return strings.Contains(out.String(), "kvslots: the command has ended") })
			fmt.Sscanf(out.String()[strings.Index(out.String(), "fence "):], "fence %s", &fence)
			wantCall(t, 0, "ended the lease of .*", "", append([]string{"evict", "--key", key, "--position", "0", "--fence", strings.TrimSuffix(fence, ".")}, transport...)...)
			_ = process.Wait()
			if code := process.ProcessState.ExitCode(); code != exitLost {
				t.Errorf("exit code %d:\n%s", code, out)
			}
			var left int
			fmt.Sscan(childPID.FindStringSubmatch(out.String())[1], &left)
			waitFor(t, func() bool { return isDead(left) })
		})
	}
}

// pipe returns the end of a pipe that is copied to the output: the process does not wait for other writers.
func (l *logs) pipe(t *testing.T) *os.File {
	t.Helper()
	read, write, err := os.Pipe()
	kvslotstest.Must(t, err)
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		buffer := make([]byte, 4096)
		for {
			n, err := read.Read(buffer)
			if err != nil {
				return
			}
			_, _ = l.Write(buffer[:n])
		}
	}()
	t.Cleanup(func() {
		write.Close()
		read.Close()
		<-copied
	})
	return write
}

// A command that was stopped is told of: its lock is still renewed.
func TestStoppedCommand(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	out := newLogs()
	process := self(t, out, underName([]string{"--server", p.url}, `echo ready; kill -STOP $$; exit 4`, "lock", "nightly")...)
	waitFor(t, func() bool {
		return strings.Contains(out.String(), "kvslots: the command is stopped, and the lease is still renewed; kill -CONT ")
	})
	var command int
	_, after, _ := strings.Cut(out.String(), "kill -CONT ")
	fmt.Sscan(after, &command)
	kvslotstest.Must(t, unix.Kill(command, unix.SIGCONT))
	_ = process.Wait()
	if code := process.ProcessState.ExitCode(); code != 4 {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

// What is ignored when kvslots starts is ignored by the command, whatever kvslots does with the signal itself.
func TestIgnoredSignalsAreInherited(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	for _, name := range []string{"HUP", "INT", "QUIT", "PIPE", "USR1", "USR2", "TERM", "ALRM", "TSTP", "TTIN", "TTOU", "CONT"} {
		t.Run(name, func(t *testing.T) {
			ignored := func(args ...string) string {
				out := newLogs()
				process := newProcess(t)
				process.Path, process.Args = "/bin/sh", append([]string{"sh", "-c", `trap '' ` + name + `; exec "$@"`, "sh"}, args...)
				process.Stdout, process.Stderr = out, out
				startProcess(t, process)
				kvslotstest.Must(t, process.Wait())
				return out.String()
			}
			path, err := os.Executable()
			kvslotstest.Must(t, err)
			const script = `grep SigIgn /proc/self/status`
			want := ignored("/bin/sh", "-c", script)
			if got := ignored(append([]string{path}, underName([]string{"--server", p.url}, script, "lock", "nightly")...)...); got != want {
				t.Errorf("the command has %s, and without kvslots %s", got, want)
			}
		})
	}
}

// As the first process of a container kvslots reaps what its command leaves behind, and waits for no zombie.
func TestReapsOrphans(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	end := filepath.Join(t.TempDir(), "end")
	// One orphan in the command's group, and one in a session of its own.
	script := `(sleep 0.1 & setsid sleep 0.1 &) ; echo ready; while [ -d ` + filepath.Dir(end) + ` ] && [ ! -e ` + end + ` ]; do sleep 0.05; done; (sleep 0.1 &)`
	for name, flags := range map[string]uintptr{"as the first process": syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID, "as another": 0} {
		t.Run(name, func(t *testing.T) {
			_ = os.Remove(end)
			out := newLogs()
			process := newProcess(t, underName([]string{"--server", p.url}, script, "lock", "nightly")...)
			process.Stdout, process.Stderr = out.pipe(t), out.pipe(t)
			process.SysProcAttr.Cloneflags = flags
			if err := process.Start(); err != nil && flags != 0 {
				t.Skip("no namespaces here: ", err)
			}
			t.Cleanup(func() { process.Process.Kill() })
			waitFor(t, func() bool { return strings.Contains(out.String(), "ready") })
			waitFor(t, func() bool { // the command and the guard
				all, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", process.Process.Pid))
				kvslotstest.Must(t, err)
				n := 0
				for _, path := range all {
					children, _ := os.ReadFile(path) // a thread may have ended
					n += len(strings.Fields(string(children)))
				}
				return n == 2
			})
			kvslotstest.Must(t, os.WriteFile(end, nil, 0o600))
			if err := process.Wait(); err != nil {
				t.Errorf("%v:\n%s", err, out)
			}
		})
	}
}

// A command of another user, as that of sudo, cannot be ended. kvslots says so.
func TestCommandOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can start processes of several users")
	}
	t.Parallel()
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--max-ttl", "3s")
	program := filepath.Join("/tmp", fmt.Sprintf("kvslots-test-%d", os.Getpid())) // which another user may execute
	self, err := os.Executable()
	kvslotstest.Must(t, err)
	content, err := os.ReadFile(self)
	kvslotstest.Must(t, err)
	kvslotstest.Must(t, os.WriteFile(program, content, 0o755))
	t.Cleanup(func() { os.Remove(program) })
	older := withoutRenewal(t, p)
	p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	out := newLogs()
	process := newProcess(t, "run", pool, "--server", older, "--ttl", "3s", "--kill-after", "500ms", "--",
		"setpriv", "--reuid=0", "/bin/sh", "-c", "echo ready; exec sleep 5")
	process.Path, process.Dir = program, "/"
	process.Stdout, process.Stderr = out.pipe(t), out.pipe(t)
	process.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	process.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SETUID}
	startProcess(t, process)
	waitFor(t, func() bool { return strings.Contains(out.String(), "ready") })
	kvslotstest.Must(t, process.Process.Signal(syscall.SIGTERM))
	waitFor(t, func() bool {
		return strings.Contains(out.String(), "kvslots: the command cannot be signalled: operation not permitted")
	})
	_ = process.Wait()
	if text := out.String(); !strings.Contains(text, "the next holder may run beside it: operation not permitted") || process.ProcessState.ExitCode() != exitLost {
		t.Errorf("exit code %d:\n%s", process.ProcessState.ExitCode(), text)
	}
}
