package main

import (
	"os/exec"
	"runtime"
)

// child is a running command.
type child struct {
	command *exec.Cmd
	shared  bool          // it is in our process group
	done    chan struct{} // closed at its end
}

// startChild starts a command. shared leaves it in our process group.
func startChild(command *exec.Cmd, shared bool) (*child, error) {
	c := &child{command: command, shared: shared, done: make(chan struct{})}
	c.arrange()
	started := make(chan error)
	go func() {
		// Linux kills the child when the thread ends that started it, not the
		// process; see arrange.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err != nil {
			return
		}
		defer close(c.done)
		_ = command.Wait() // code has it
	}()
	return c, <-started
}

func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}
