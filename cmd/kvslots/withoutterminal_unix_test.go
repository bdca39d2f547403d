//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// withoutTerminal lets a process have no controlling terminal, also if the tests run at one.
func withoutTerminal(process *exec.Cmd) { process.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
