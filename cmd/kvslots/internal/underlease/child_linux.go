package underlease

import "syscall"

// arrange makes the kernel kill the command when this process dies: nothing else
// would end the command before its lease ends.
func (c *child) arrange() {
	c.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: !c.shared, Pdeathsig: syscall.SIGKILL}
}
