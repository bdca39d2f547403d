//go:build unix

package underlease

import (
	"errors"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// hasTerminal reports whether this process has a controlling terminal, whatever its standard input is. The command
// must then stay in the group of this process: the shell makes only that the foreground group, and
// no other can read from the terminal.
func hasTerminal() bool {
	tty, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(tty)
	}
	return err == nil
}

var endSignals = []os.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT}

// forwarded returns the signals to catch and pass on. In a shared group the terminal
// sends Ctrl-Z to the command and to this process.
//
// A signal that is ignored when this process starts stays ignored, by this process and
// by the command, which inherits that. So nohup(1) protects both from SIGHUP, and Ctrl-C
// does not interrupt a shell's background job.
func forwarded(shared bool) []os.Signal {
	forward := append(slices.Clone(endSignals), syscall.SIGUSR1, syscall.SIGUSR2)
	if !shared {
		forward = append(forward, syscall.SIGTSTP, syscall.SIGCONT)
	}
	return slices.DeleteFunc(forward, signal.Ignored)
}

// deadly reports whether a forwarded signal ends a process by default.
func deadly(sig os.Signal) bool { return sig != syscall.SIGTSTP && sig != syscall.SIGCONT }

func asksToEnd(sig os.Signal) bool { return slices.Contains(endSignals, sig) }

// suspend stops this process on SIGTSTP, which is the signal's default.
func suspend(sig os.Signal) {
	if sig == syscall.SIGTSTP {
		_ = unix.Kill(unix.Getpid(), unix.SIGSTOP)
	}
}

// pass passes on a signal, unless the terminal has sent it to both.
func (c *child) pass(sig os.Signal) error {
	if c.shared && fromTerminal(sig) {
		return nil
	}
	err := c.signal(sig.(syscall.Signal))
	suspend(sig)
	return err
}

// terminate asks the command's group to end, and continues it if it is stopped.
func (c *child) terminate() error {
	return errors.Join(c.signal(syscall.SIGTERM), c.signal(syscall.SIGCONT))
}

func (c *child) kill() error { return c.signal(syscall.SIGKILL) }

// signal sends a signal to the command's group. If that is the group of this process, it sends it to the command, and
// to what is left of what the command has started. Its error is that a process may not be signalled.
func (c *child) signal(sig syscall.Signal) (err error) {
	targets := []int{-c.command.Process.Pid}
	if c.shared {
		targets = c.descendants()
		if pid := c.command.Process.Pid; !c.ended() && !slices.Contains(targets, pid) {
			targets = append(targets, pid)
		}
	}
	for _, pid := range targets {
		if failed := unix.Kill(pid, sig); failed == unix.EPERM {
			err = failed
		}
	}
	return err
}

// leftBehind reports whether processes are left in the command's group when the command has ended: a shell may
// end before the processes that it has started.
func (c *child) leftBehind() bool {
	if c.shared {
		return len(c.descendants()) > 0
	}
	err := unix.Kill(-c.command.Process.Pid, 0)
	return err == nil || err == unix.EPERM // it is another user's
}

// descendants returns what the command has started and has left in a group that it shares.
func (c *child) descendants() []int {
	return slices.DeleteFunc(descendants(), func(pid int) bool { return slices.Contains(c.others, pid) })
}

func (c *child) isStopped() bool { return isStopped(c.command.Process.Pid) }

// reap waits for what has ended of the command's orphans.
func (c *child) reap() { reapOrphans(append(c.guard.pids(), c.command.Process.Pid)...) }

func (c *child) code() int {
	status, ok := c.command.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return SignalError{status.Signal()}.ExitCode()
	}
	return c.command.ProcessState.ExitCode()
}
