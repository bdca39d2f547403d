package main

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// notifySocket is a socket of a service manager.
type notifySocket struct {
	*net.UnixConn
	name string
}

func newNotifySocket(t *testing.T, name string) notifySocket {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	kvslotstest.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	return notifySocket{conn, name}
}

func socketFile(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "kvslots") // t.TempDir is longer than a socket's name may be
	kvslotstest.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "notify")
}

// want reads messages until one contains an assignment, and returns all of them.
func (s notifySocket) want(t *testing.T, assignment string) (messages []string) {
	t.Helper()
	for buffer := make([]byte, 4096); ; {
		n, err := s.Read(buffer)
		if err != nil {
			t.Fatalf("no %s after %q: %v", assignment, messages, err)
		}
		messages = append(messages, string(buffer[:n]))
		if slices.Contains(strings.Split(string(buffer[:n]), "\n"), assignment) {
			return messages
		}
	}
}

func (s notifySocket) env(watchdog time.Duration) map[string]string {
	return map[string]string{
		"NOTIFY_SOCKET": s.name,
		"WATCHDOG_USEC": strconv.FormatInt(watchdog.Microseconds(), 10),
		"WATCHDOG_PID":  strconv.Itoa(os.Getpid()),
	}
}

func TestServiceManager(t *testing.T) {
	names := map[string]string{"file": socketFile(t)}
	if runtime.GOOS == "linux" {
		names["abstract"] = "@kvslots-test-" + strconv.Itoa(os.Getpid())
	}
	for name, socket := range names {
		t.Run(name, func(t *testing.T) {
			s := newNotifySocket(t, socket)
			p := runServe(t, s.env(100*time.Millisecond), "--data-dir", t.TempDir())
			s.want(t, "READY=1")
			address := p.logs.waitFor(t, "listening")["http"].(string)
			p.url = "http://" + address
			p.want(t, "GET", "/ready", "", 200, "")
			for range 3 {
				s.want(t, "WATCHDOG=1")
			}
			p.stop()
			if last := s.want(t, "STOPPING=1"); last[len(last)-1] != "STOPPING=1\nSTATUS=draining" {
				t.Errorf("%q", last)
			}
			if code := p.exitCode(t); code != exitDone {
				t.Errorf("exit code %d; logs:\n%s", code, p.logs)
			}
		})
	}
}

// SIGHUP is a reload, and says nothing while the gateway stops.
func TestServiceManagerReloads(t *testing.T) {
	s := newNotifySocket(t, socketFile(t))
	process := newProcess(t, "serve", "--http-addr", "127.0.0.1:0", "--data-dir", t.TempDir(), "--drain-wait", "1h")
	process.Env = append(process.Env, "NOTIFY_SOCKET="+s.name)
	lines := newLogs()
	process.Stderr = lines
	startProcess(t, process)
	s.want(t, "READY=1")
	hangUp := func(times int) {
		t.Helper()
		kvslotstest.Must(t, process.Process.Signal(syscall.SIGHUP))
		lines.Await(t, func(text string) bool { return strings.Count(text, "SIGHUP") == times })
	}
	hangUp(1)
	if told := s.want(t, "READY=1"); !slices.Equal(told, []string{"RELOADING=1", "READY=1"}) {
		t.Errorf("told %q", told)
	}
	kvslotstest.Must(t, process.Process.Signal(syscall.SIGTERM))
	s.want(t, "STOPPING=1")
	hangUp(2)
	kvslotstest.Must(t, process.Process.Kill())
	process.Wait()
	end, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.name, Net: "unixgram"})
	kvslotstest.Must(t, err)
	defer end.Close()
	kvslotstest.Must(t, kvslotstest.Err(end.Write([]byte("END=1"))))
	if told := s.want(t, "END=1"); len(told) != 1 {
		t.Errorf("told %q while it stopped", told)
	}
}

// A gateway is not ready before NATS has answered.
func TestServiceManagerWaitsForNATS(t *testing.T) {
	s, port := newNotifySocket(t, socketFile(t)), kvslotstest.Port(t)
	p := runServe(t, s.env(time.Minute), "--nats-url", addressOf(port))
	if told := s.want(t, "STATUS=waiting for NATS"); len(told) != 1 {
		t.Errorf("told %q first", told)
	}
	runNATS(t, server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: t.TempDir()})
	if told := s.want(t, "READY=1"); len(told) != 1 {
		t.Errorf("told %q before that", told)
	}
	p.logs.waitFor(t, "listening")
}

// A service manager that is not there stops nothing.
func TestServiceManagerIsGone(t *testing.T) {
	p := startServe(t, map[string]string{"NOTIFY_SOCKET": socketFile(t)}, "--data-dir", t.TempDir())
	p.want(t, "GET", "/ready", "", 200, "")
	p.logs.waitFor(t, "service manager not notified")
}
