//go:build unix && !linux

package underlease

import "syscall"

func (c *child) arrange() { c.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: !c.shared} }
