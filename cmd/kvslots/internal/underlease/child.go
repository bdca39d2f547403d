package underlease

import (
	"os/exec"
	"runtime"
	"time"
)

// child is a running command.
type child struct {
	command *exec.Cmd
	shared  bool          // it is in the process group of this process
	done    chan struct{} // closed when it has ended
}

// startChild starts a command. shared leaves it in the process group of this
// process.
func startChild(command *exec.Cmd, shared bool) (*child, error) {
	c := &child{command: command, shared: shared, done: make(chan struct{})}
	c.arrange()
	// Processes that it leaves behind may hold its output open.
	command.WaitDelay = time.Second
	started := make(chan error)
	go func() {
		// Linux kills the child when the thread that started it ends, not when
		// the process does; see arrange.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err != nil {
			return
		}
		defer close(c.done)
		_ = command.Wait() // code reports how it ended
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
