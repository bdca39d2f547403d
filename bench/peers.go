//go:build peers

package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// A peer is another lock server that could replace kvslots: the operating system's
// package of it, in a process of its own, on loopback, used in its usual way. Plain KV needs
// no package.
type peer struct {
	program string // the server's
	pkg     string // Debian's package of it
	start   func(ctx context.Context, e *Environment, program string) ([]baseline, error)
}

var peers = []peer{
	{"redis-server", "redis-server", startRedis},
	{"etcd", "etcd-server", startEtcd},
}

// errNoPeers is nil in a build with the tag peers.
var errNoPeers error

// startPeers starts all installed peers and plain KV, and notes the missing ones.
func (e *Environment) startPeers(ctx context.Context) (baselines []baseline) {
	for _, p := range peers {
		program, err := exec.LookPath(p.program)
		if err != nil {
			e.note("left out: %s is not installed (Debian: apt-get install %s)", p.program, p.pkg)
			continue
		}
		started, err := p.start(ctx, e, program)
		if err != nil {
			e.note("left out: %s: %v", p.program, err)
		}
		baselines = append(baselines, started...)
	}
	kv, err := startKV(ctx, e)
	if err != nil {
		e.note("left out: plain KV: %v", err)
	}
	return append(baselines, kv...)
}

// PeerStatus returns a line for each peer's server: its version, or the Debian package
// that contains it. It returns an error in a build without the tag peers.
func PeerStatus() (lines []string, err error) {
	for _, p := range peers {
		if program, err := exec.LookPath(p.program); err == nil {
			lines = append(lines, fmt.Sprintf("%s %s", p.program, versionOf(program)))
		} else {
			lines = append(lines, fmt.Sprintf("%s is missing: apt-get install %s", p.program, p.pkg))
		}
	}
	return lines, nil
}

var versionForm = regexp.MustCompile(`\d+\.\d+\.\d+`)

func versionOf(program string) string {
	out, err := exec.Command(program, "--version").Output()
	if err != nil {
		return "of an unknown version"
	}
	return versionForm.FindString(string(out))
}

type child struct {
	command *exec.Cmd
	output  strings.Builder // must be read only after the process has ended
	ended   chan struct{}
}

// startChild starts a program in a new directory below Config.Dir.
func (e *Environment) startChild(program string, args func(dir string) []string) (*child, error) {
	dir, err := os.MkdirTemp(e.cfg.Dir, "kvslots-bench-")
	if err != nil {
		return nil, err
	}
	c := &child{command: exec.Command(program, args(dir)...), ended: make(chan struct{})}
	c.command.Dir = dir
	c.command.Stdout, c.command.Stderr = &c.output, &c.output
	if err := c.command.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	go func() {
		defer close(c.ended)
		_ = c.command.Wait() // an error is expected: the process is killed
	}()
	e.ofRun.add(func() error {
		_ = c.command.Process.Kill() // fails if it has ended
		<-c.ended
		return os.RemoveAll(dir)
	})
	return c, nil
}

// startTimeout bounds the time from a peer's start to its first answer.
const startTimeout = 30 * time.Second

// await calls ready until it succeeds or the process has ended.
func (c *child) await(ctx context.Context, ready func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-c.ended:
			return fmt.Errorf("the server ended: %s", lastLine(c.output.String()))
		default:
		}
		pause(ctx, 20*time.Millisecond)
		if ctx.Err() != nil {
			return fmt.Errorf("the server does not answer: %w", err)
		}
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// freePort returns a port that the kernel has picked, for servers that cannot listen on
// port 0. If another process takes the port first, the server ends and is left out.
func freePort() (int, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return ln.Addr().(*net.TCPAddr).Port, ln.Close()
}
