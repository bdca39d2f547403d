//go:build !unix

package underlease

import "os"

// Without process groups and signals this process can only kill the command.

func hasTerminal() bool { return true }

func ignoreIgnored() {}

func recordOrigins([]os.Signal) {}

func adoptOrphans() chan os.Signal { return nil }

func reapOrphans(...int) {}

func descendants() []int { return nil }

func forwarded(bool) []os.Signal { return []os.Signal{os.Interrupt} }

func deadly(os.Signal) bool { return true }

func asksToEnd(os.Signal) bool { return true }

func suspend(os.Signal) {}

func (c *child) arrange() {}

func (c *child) pass(os.Signal) error { return nil } // the console sends the signal to the command, too

func (c *child) terminate() error { return c.kill() }

func (c *child) kill() error { return c.command.Process.Kill() }

func (c *child) leftBehind() bool { return false }

func (c *child) isStopped() bool { return false }

func (c *child) reap() {}

func (c *child) code() int { return c.command.ProcessState.ExitCode() }
