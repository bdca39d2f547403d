//go:build !unix

package underlease

import (
	"io"
	"os"
)

// Without process groups and signals this process can only kill the command.

func sharesTerminal(io.Reader) bool { return true }

func forwarded(bool) []os.Signal { return []os.Signal{os.Interrupt} }

func deadly(os.Signal) bool { return true }

func asksToEnd(os.Signal) bool { return true }

func suspend(os.Signal) {}

func (c *child) arrange() {}

func (c *child) pass(os.Signal) {} // the console sends the signal to the command, too

func (c *child) terminate() { c.kill() }

func (c *child) kill() { _ = c.command.Process.Kill() }

func (c *child) leftBehind() bool { return false }

func (c *child) code() int { return c.command.ProcessState.ExitCode() }
