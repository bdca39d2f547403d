package main

import "syscall"

// arrange has the command killed when we are: nobody would end it before its
// lease does.
func (c *child) arrange() {
	c.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: !c.shared, Pdeathsig: syscall.SIGKILL}
}
