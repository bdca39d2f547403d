package underlease

import (
	"os/exec"
	"runtime"
	"time"
)

// child is a command, with the process group in which it runs.
type child struct {
	command *exec.Cmd
	shared  bool          // whether it is in the process group of this process
	others  []int         // processes below this one, in its group, that it has not started: of what exec(2) has replaced
	done    chan struct{} // closed when the command has ended
	guard   *guard        // kills the group when this process has died
}

// startChild starts a command, in the process group of this process if shared is true,
// or else in a new one. The caller must call release.
func startChild(command *exec.Cmd, shared bool) (*child, error) {
	c := &child{command: command, shared: shared, others: descendants(), done: make(chan struct{})}
	c.arrange()
	c.guard = startGuard()
	// Processes that the command leaves behind may keep its output open.
	command.WaitDelay = time.Second
	started := make(chan error)
	go func() {
		// Linux kills the child at the end of the thread that started it, not of
		// the process; see arrange.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		if err == nil {
			c.guard.watch(c)
		}
		started <- err
		if err != nil {
			return
		}
		defer close(c.done)
		_ = command.Wait() // code reports how it ended
		if c.shared {
			c.guard.stop() // it would kill a later process with the command's number
		}
	}()
	err := <-started
	if err != nil {
		c.release()
	}
	return c, err
}

// release lets what is left of the group live on.
func (c *child) release() { c.guard.stop() }

func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}
