package main

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

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

func TestServiceManager(t *testing.T) {
	names := map[string]string{"file": socketFile(t)}
	if runtime.GOOS == "linux" {
		names["abstract"] = "@kvslots-test-" + strconv.Itoa(os.Getpid())
	}
	for name, socket := range names {
		t.Run(name, func(t *testing.T) {
			s := newNotifySocket(t, socket)
			p := runServe(t, map[string]string{"NOTIFY_SOCKET": s.name}, "--data-dir", t.TempDir())
			s.want(t, "READY=1")
			address := p.logs.waitFor(t, "listening")["http"].(string)
			p.url = "http://" + address
			p.want(t, "GET", "/ready", "", 200, "")
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

// A gateway is not ready before NATS has answered.
func TestServiceManagerWaitsForNATS(t *testing.T) {
	s, port := newNotifySocket(t, socketFile(t)), kvslotstest.Port(t)
	p := runServe(t, map[string]string{"NOTIFY_SOCKET": s.name}, "--nats-url", addressOf(port))
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
