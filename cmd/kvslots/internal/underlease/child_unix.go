//go:build unix

package underlease

import (
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// sharesTerminal reports whether stdin is a terminal whose foreground process
// group is that of this process. The command must then stay in that group: no other
// group can read from the terminal.
func sharesTerminal(stdin io.Reader) bool {
	file, ok := stdin.(*os.File)
	if !ok {
		return false
	}
	group, err := unix.IoctlGetInt(int(file.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
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

func (c *child) pass(sig os.Signal) {
	switch sig {
	case syscall.SIGINT, syscall.SIGQUIT:
		if c.shared {
			return // the terminal has sent the signal to both
		}
	case syscall.SIGTSTP:
		c.signal(syscall.SIGTSTP)
		suspend(sig)
		return
	}
	c.signal(sig.(syscall.Signal))
}

// terminate asks the command to end, and continues it if it is stopped.
func (c *child) terminate() {
	c.signal(syscall.SIGTERM)
	c.signal(syscall.SIGCONT)
}

func (c *child) kill() { c.signal(syscall.SIGKILL) }

// signal sends a signal to the command's process group, or to the command alone if
// it shares the group of this process.
func (c *child) signal(sig syscall.Signal) {
	if c.shared {
		_ = c.command.Process.Signal(sig)
		return
	}
	_ = unix.Kill(-c.command.Process.Pid, sig)
}

// leftBehind reports whether processes are left in the command's own group: a shell may
// end before the processes that it has started.
func (c *child) leftBehind() bool {
	return !c.shared && unix.Kill(-c.command.Process.Pid, 0) == nil
}

func (c *child) code() int {
	status, ok := c.command.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return SignalError{status.Signal()}.ExitCode()
	}
	return c.command.ProcessState.ExitCode()
}
