//go:build unix

package underlease

import (
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
)

// guard is a process in a session of its own that outlives this one, to kill the command when this process
// has died: with kill -9 it can do nothing itself. A nil guard does nothing.
type guard struct {
	process *exec.Cmd
	tell    io.WriteCloser // ends with this process
	once    sync.Once
	waiting sync.WaitGroup
}

// guardScript reads what to kill, and then whether the command has ended. Without that line, this process has died.
const guardScript = `read -r target && { read -r ended || kill -KILL "$target"; }`

// startGuard returns nil if there is no shell.
func startGuard() *guard {
	g := &guard{process: exec.Command("/bin/sh", "-c", guardScript)}
	g.process.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	g.process.Env = []string{}
	var err error
	if g.tell, err = g.process.StdinPipe(); err == nil {
		err = g.process.Start()
	}
	if err != nil {
		return nil
	}
	g.waiting.Go(func() { _ = g.process.Wait() }) // it may be killed
	return g
}

func (g *guard) watch(c *child) {
	target := -c.command.Process.Pid // the whole group
	if c.shared {
		target = c.command.Process.Pid
	}
	if g != nil {
		fmt.Fprintln(g.tell, target)
	}
}

// stop ends the guard: the command has ended, or has not begun.
func (g *guard) stop() {
	if g == nil {
		return
	}
	g.once.Do(func() {
		fmt.Fprint(g.tell, "ended\nended\n") // the first is for a command that has not begun
		_ = g.tell.Close()
		g.waiting.Wait()
	})
}

func (g *guard) pids() []int {
	if g == nil {
		return nil
	}
	return []int{g.process.Process.Pid}
}
