package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// terminal is a pseudo-terminal: input of the user goes in, output of programs comes
// out.
type terminal struct {
	person *os.File
	shown  *logtest.Output
}

// onTerminal runs kvslots in the foreground of a terminal.
func onTerminal(t *testing.T, args ...string) (*exec.Cmd, *terminal) {
	t.Helper()
	return processOnTerminal(t, newProcess(t, args...), false)
}

// processOnTerminal starts a process in the foreground of a terminal, of which it may have no standard input.
func processOnTerminal(t *testing.T, process *exec.Cmd, redirected bool) (*exec.Cmd, *terminal) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	person := os.NewFile(uintptr(fd), "ptmx") // whose Close ends reads
	kvslotstest.Must(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	kvslotstest.Must(t, err)
	kvslotstest.Must(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 132}))
	theirs, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	kvslotstest.Must(t, err)
	defer theirs.Close()
	process.Stdin, process.Stdout, process.Stderr = theirs, theirs, theirs
	process.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 1}
	if redirected {
		process.Stdin = nil
	}
	startProcess(t, process)
	shown, done := &logtest.Output{}, make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(shown, person)
	}()
	t.Cleanup(func() {
		process.Process.Kill()
		person.Close()
		<-done
	})
	return process, &terminal{person, shown}
}

// The command can read from the terminal of kvslots, and gets Ctrl-C from it once.
func TestRunCommandAtATerminal(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	script := `read line; echo "read $line"; trap 'echo interrupted' INT; echo ready; while ! read line; do :; done; echo "again $line"; exit 6`
	process, term := onTerminal(t, shell([]string{"--server", p.url}, script)...)
	fmt.Fprintln(term.person, "hello")
	waitFor(t, func() bool { return strings.Contains(term.shown.String(), "ready") })
	fmt.Fprint(term.person, "\x03")
	waitFor(t, func() bool { return strings.Contains(term.shown.String(), "interrupted") })
	fmt.Fprintln(term.person, "bye")
	_ = process.Wait()
	if code := process.ProcessState.ExitCode(); code != 6 {
		t.Errorf("exit code %d", code)
	}
	waitFor(t, func() bool { return strings.Contains(term.shown.String(), "again bye") })
	if got := term.shown.String(); !strings.Contains(got, "read hello") || strings.Count(got, "interrupted") != 1 {
		t.Errorf("shown:\n%s", got)
	}
	p.want(t, "GET", "/l/"+pool, "", 200, `"in_use":0`)
}

// A command that asks on the terminal gets the answer, also if its standard input is another file.
func TestRunCommandAsksOnTheTerminal(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	process := newProcess(t, underName([]string{"--server", p.url}, `echo asks >/dev/tty; read line </dev/tty; echo "read $line"`, "lock", "nightly")...)
	process, term := processOnTerminal(t, process, true)
	waitFor(t, func() bool { return strings.Contains(term.shown.String(), "asks") })
	fmt.Fprintln(term.person, "hello")
	if err := process.Wait(); err != nil {
		t.Error(err)
	}
	waitFor(t, func() bool { return strings.Contains(term.shown.String(), "read hello") })
}

// At a terminal the command gets a signal that another process sends to kvslots alone, and its children get it.
func TestRunCommandPassesSignalsAtATerminal(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	for sig, name := range map[syscall.Signal]string{syscall.SIGINT: "INT", syscall.SIGQUIT: "QUIT", syscall.SIGTERM: "TERM", syscall.SIGHUP: "HUP"} {
		t.Run(name, func(t *testing.T) {
			script := `trap 'echo got ` + name + `; exit 9' ` + name + `; echo ready; while :; do sleep 0.05; done`
			process, term := onTerminal(t, underName([]string{"--server", p.url}, script, "lock", "nightly")...)
			waitFor(t, func() bool { return strings.Contains(term.shown.String(), "ready") })
			if code := endBy(t, process, sig); code != 9 {
				t.Errorf("exit code %d", code)
			}
			waitFor(t, func() bool { return strings.Contains(term.shown.String(), "got "+name) })
		})
	}
}

// When the terminal has gone, the kernel tells the leader of its session alone, which is kvslots after "ssh -t host kvslots lock …".
func TestRunCommandAfterHangup(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	process, term := onTerminal(t, underName([]string{"--server", p.url}, `trap 'exit 9' HUP; echo ready; while :; do sleep 0.05; done`, "lock", "nightly")...)
	waitFor(t, func() bool { return strings.Contains(term.shown.String(), "ready") })
	term.person.Close()
	_ = process.Wait()
	if code := process.ProcessState.ExitCode(); code != 9 {
		t.Errorf("exit code %d", code)
	}
}

// What a shell has started before it became kvslots is not the command's.
func TestLockAfterExec(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	process := newProcess(t, underName([]string{"--server", p.url}, `exit 3`, "lock", "nightly")...)
	process.Args = append([]string{"sh", "-c", `sleep 600 & exec "$0" "$@"`, process.Path}, process.Args[1:]...)
	process.Path = "/bin/sh"
	process, _ = processOnTerminal(t, process, false)
	_ = process.Wait()
	if code := process.ProcessState.ExitCode(); code != 3 {
		t.Errorf("exit code %d", code)
	}
}

// If Ctrl-Z reaches only kvslots, the command stops and continues with kvslots.
func TestRunCommandStops(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	out := newLogs()
	process := self(t, out, shell([]string{"--server", p.url}, `echo pid $$; exec sleep 60`)...)
	waitFor(t, func() bool { return childPID.MatchString(out.String()) })
	var command int
	fmt.Sscan(childPID.FindStringSubmatch(out.String())[1], &command)
	ours := process.Process.Pid
	for _, step := range []struct {
		signal  syscall.Signal
		stopped bool
	}{
		{syscall.SIGTSTP, true}, {syscall.SIGCONT, false}, {syscall.SIGTSTP, true}, {syscall.SIGCONT, false},
	} {
		kvslotstest.Must(t, process.Process.Signal(step.signal))
		waitFor(t, func() bool { return isStopped(t, ours) == step.stopped && isStopped(t, command) == step.stopped })
	}
	if code := endBy(t, process, syscall.SIGTERM); code != 128+15 {
		t.Errorf("exit code %d", code)
	}
}

// top shows what changes, takes keys, and leaves the terminal as it was.
func TestTopAtATerminal(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	p.want(t, "PUT", "/l/"+pool, `{"count":1,"name":"printer"}`, 200, "")
	process, term := onTerminal(t, "top", "--server", p.url, "--interval", "100ms")
	shows := func(text string) {
		term.shown.Await(t, func(shown string) bool { return strings.Contains(shown, text) })
	}
	shows("printer")
	shows("0/1")
	p.want(t, "POST", "/l/"+pool+"/borrow", `{"ttl":30,"label":"ci@b7:12"}`, 200, "")
	fmt.Fprint(term.person, "\r")
	shows("ci@b7:12")
	fmt.Fprint(term.person, "\x1b[D") // left
	fmt.Fprint(term.person, "/prin\r")
	shows("filter:")
	fmt.Fprint(term.person, "s")
	shows("oldest_")
	fmt.Fprint(term.person, "q")
	if err := process.Wait(); err != nil {
		t.Error(err)
	}
	shows("\x1b[?1049l") // the end of the alternate screen
}

// isStopped reports whether a process is stopped.
func isStopped(t *testing.T, pid int) bool {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	kvslotstest.Must(t, err)
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "T")
}

// On a terminal serve prints lines for people, and where the page is.
func TestServeOnTerminal(t *testing.T) {
	process, term := onTerminal(t, "serve", "--http-addr", "127.0.0.1:0", "--data-dir", t.TempDir())
	page := regexp.MustCompile(`page=\S*http://127\.0\.0\.1:\d+/`)
	term.shown.Await(t, func(shown string) bool { return page.MatchString(shown) || strings.Contains(shown, `{"level"`) })
	if shown := term.shown.String(); strings.Contains(shown, `{"level"`) {
		t.Error(shown)
	}
	_ = process.Process.Signal(syscall.SIGTERM)
	_ = process.Wait()
}
