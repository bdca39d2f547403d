package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/kvslots/kvslots/bench"
)

// lockServer is another lock server that could replace kvslots: the operating system's
// package of it, in a process of its own, on loopback, used in its usual way.
type lockServer struct {
	program string // the server's
	pkg     string // Debian's package of it
	start   func(ctx context.Context, s *servers, program string) error
}

var lockServers = []lockServer{
	{"redis-server", "redis-server", startRedis},
	{"etcd", "etcd-server", startEtcd},
}

// servers are the lock servers of a run, and plain KV, which needs no package.
type servers struct {
	dir       string // of their data
	baselines []bench.Baseline
	notes     []string // what was left out, and why
	closers
}

// start starts all that are installed. Errors become notes.
func (s *servers) start(ctx context.Context) {
	for _, server := range lockServers {
		program, err := exec.LookPath(server.program)
		if err != nil {
			s.note("left out: %s is not installed (Debian: apt-get install %s)", server.program, server.pkg)
		} else if err := server.start(ctx, s, program); err != nil {
			s.note("left out: %s: %v", server.program, err)
		}
	}
	if err := startKV(ctx, s); err != nil {
		s.note("left out: plain KV: %v", err)
	}
}

func (s *servers) note(format string, v ...any) { s.notes = append(s.notes, fmt.Sprintf(format, v...)) }

// status returns a line for each lock server: its version, or the Debian package that
// contains it.
func status() (lines []string) {
	for _, server := range lockServers {
		if program, err := exec.LookPath(server.program); err == nil {
			lines = append(lines, fmt.Sprintf("%s %s", server.program, versionOf(program)))
		} else {
			lines = append(lines, fmt.Sprintf("%s is missing: apt-get install %s", server.program, server.pkg))
		}
	}
	return lines
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

func (s *servers) startChild(program string, args func(dir string) []string) (*child, error) {
	dir, remove, err := bench.TempDir(s.dir)
	if err != nil {
		return nil, err
	}
	c := &child{command: exec.Command(program, args(dir)...), ended: make(chan struct{})}
	c.command.Dir = dir
	c.command.Stdout, c.command.Stderr = &c.output, &c.output
	if err := c.command.Start(); err != nil {
		return nil, errors.Join(err, remove())
	}
	go func() {
		defer close(c.ended)
		_ = c.command.Wait() // an error is expected: the process is killed
	}()
	s.add(func() error {
		_ = c.command.Process.Kill() // fails if it has ended
		<-c.ended
		return remove()
	})
	return c, nil
}

// startTimeout bounds the time from a server's start to its first answer.
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
		case <-ctx.Done():
			return fmt.Errorf("the server does not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
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
