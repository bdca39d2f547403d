package natsembed

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/natsembed/internal/flush"
)

func TestNatsLogLevels(t *testing.T) {
	cases := []struct {
		name string
		call func(*natsLog)
		want string
	}{
		{"notice", func(l *natsLog) { l.Noticef("  Version: %s", "2") }, `{"level":"debug","message":"Version: 2"}`},
		{"warning", func(l *natsLog) { l.Warnf("careful") }, `{"level":"warn","message":"careful"}`},
		{"error", func(l *natsLog) { l.Errorf("broken") }, `{"level":"error","message":"broken"}`},
		{"fatal", func(l *natsLog) { l.Fatalf("dead") }, `{"level":"error","message":"dead"}`},
		{"debug", func(l *natsLog) { l.Debugf("chatter") }, ``},
		{"trace", func(l *natsLog) { l.Tracef("payload") }, ``},
		{"subject", func(l *natsLog) {
			l.Warnf("Internal subscription on %q took too long: %v", []byte(quoted), 3*time.Second)
		}, `{"level":"warn","message":"Internal subscription on … took too long: 3s"}`},
		{"message", func(l *natsLog) { l.Warnf("Malformed JetStream API Request: %q", quoted) }, `{"level":"warn","message":"Malformed JetStream API Request: …"}`},
		{"file", func(l *natsLog) { l.Warnf("Error reading metafile %q: %v", "/data/meta.inf", syscall.EIO) }, `{"level":"warn","message":"Error reading metafile \"/data/meta.inf\": input/output error"}`},
		{"fatal with a subject", func(l *natsLog) { l.Fatalf("%5.1f %q", 1.25, quoted) }, `{"level":"error","message":"1.2 …"}`},
		{"escaped", func(l *natsLog) { l.Errorf("a\x1b[31m\nb") }, `{"level":"error","message":"a\\x1b[31m\\nb"}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var out logtest.Log
			c.call(newNatsLog(out.Logger()))
			if got := strings.TrimSpace(out.String()); got != c.want {
				t.Errorf("logged %s, want %s", got, c.want)
			}
		})
	}
}

// Of nats-server's write errors, the one that no later write can make good is kept.
func TestWriteErrorIsKept(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "/data/1.blk", Err: syscall.ENOSPC}
	failed := &fs.PathError{Op: "write", Path: "/data/1.blk", Err: syscall.EIO}
	unflushed := &fs.PathError{Op: "sync", Path: "/data/1.blk", Err: syscall.ENOSPC}
	cases := []struct {
		name     string
		reported []error
		want     error
		passes   bool
	}{
		{"none", nil, nil, false},
		{"no space", []error{full}, full, true},
		{"failed", []error{failed, full}, failed, false},
		{"failed later", []error{full, failed}, failed, false},
		{"not flushed", []error{full, unflushed}, unflushed, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			log := newNatsLog(logtest.Logger())
			log.Errorf("Filestore [S] Something else: %v", failed)
			for _, err := range c.reported {
				log.Errorf("Filestore [S] Critical write error: %v", err)
				log.Errorf("JetStream stream '%s > %s' critical write error: %v", "A", "S", err)
			}
			if got := log.writeErr(); !errors.Is(got, c.want) || flush.Retriable(got) != c.passes {
				t.Errorf("kept %v, want %v", got, c.want)
			}
		})
	}
}

func TestFatalLineIsKept(t *testing.T) {
	log := newNatsLog(logtest.Logger())
	if log.err() != nil {
		t.Fatalf("an error before any line: %v", log.err())
	}
	log.Fatalf("the %s", "first")
	log.Fatalf("the second")
	if log.err() == nil || log.err().Error() != "the first" {
		t.Errorf("kept %v, want the first", log.err())
	}
}

// A machine that is refused tries again several times a second: one line a minute says so.
func TestRefusedRoutesAreLoggedOnce(t *testing.T) {
	var log logtest.Log
	lines := newNatsLog(log.Logger())
	for n := range 100 {
		lines.Errorf("%s - rid:%d - TLS route handshake error: %v", fmt.Sprint("127.0.0.1:", 50000+n), n, errors.New("no"))
	}
	lines.Errorf("%s - rid:%d - TLS route handshake error: %v", "127.0.0.1:1", 101, errors.New("another"))
	if n := strings.Count(log.String(), "\n"); n != 2 {
		t.Errorf("%d lines:\n%s", n, &log)
	}
}
