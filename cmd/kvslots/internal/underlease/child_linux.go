package underlease

import "syscall"

// arrange makes the kernel kill the command when this process dies. Otherwise the
// command could outlive its lease.
func (c *child) arrange() {
	c.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: !c.shared, Pdeathsig: syscall.SIGKILL}
}
