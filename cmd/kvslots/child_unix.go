//go:build unix

package main

import (
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// sharesTerminal tells whether stdin is our terminal and we are the ones whom
// it listens to. Then a command must stay in our process group: only that may
// read from the terminal.
func sharesTerminal(stdin io.Reader) bool {
	file, ok := stdin.(*os.File)
	if !ok {
		return false
	}
	group, err := unix.IoctlGetInt(int(file.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// forwarded are the signals to catch and pass on. In a shared group the
// terminal's own reach the command without us, and stop us with it.
func forwarded(shared bool) []os.Signal {
	signals := []os.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
	if !shared {
		signals = append(signals, syscall.SIGTSTP, syscall.SIGCONT)
	}
	// What nohup(1) made us ignore, the command ignores, too.
	return slices.DeleteFunc(signals, signal.Ignored)
}

// deadly tells whether a signal would have ended us.
func deadly(sig os.Signal) bool { return sig != syscall.SIGTSTP && sig != syscall.SIGCONT }

// ending reports whether a signal asks us to end.
func ending(sig os.Signal) bool {
	return slices.Contains([]os.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT}, sig)
}

// suspend stops us, as Ctrl-Z would have if we had not caught it.
func suspend(sig os.Signal) {
	if sig == syscall.SIGTSTP {
		_ = unix.Kill(unix.Getpid(), unix.SIGSTOP)
	}
}

// pass hands a signal on.
func (c *child) pass(sig os.Signal) {
	switch sig {
	case syscall.SIGINT, syscall.SIGQUIT:
		if c.shared {
			return // the terminal has sent it to both
		}
	case syscall.SIGTSTP:
		c.signal(syscall.SIGTSTP)
		suspend(sig)
		return
	}
	c.signal(sig.(syscall.Signal))
}

// terminate asks the command to end; a stopped one has to run for that.
func (c *child) terminate() {
	c.signal(syscall.SIGTERM)
	c.signal(syscall.SIGCONT)
}

func (c *child) kill() { c.signal(syscall.SIGKILL) }

// signal reaches the command's whole group, if it has one of its own.
func (c *child) signal(sig syscall.Signal) {
	if c.shared {
		_ = c.command.Process.Signal(sig)
		return
	}
	_ = unix.Kill(-c.command.Process.Pid, sig)
}

// leftBehind tells whether the command's group has members; a shell may be gone
// long before those it started.
func (c *child) leftBehind() bool {
	return !c.shared && unix.Kill(-c.command.Process.Pid, 0) == nil
}

// code is the exit code, after the end.
func (c *child) code() int {
	status, ok := c.command.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return signalled(status.Signal())
	}
	return c.command.ProcessState.ExitCode()
}
