package natsembed

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

const quoted = "9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01"

func TestLinesAboutClientsAreLimited(t *testing.T) {
	synctest.Test(t, testLinesAboutClientsAreLimited)
}

func testLinesAboutClientsAreLimited(t *testing.T) {
	var out logtest.Log
	log := newNatsLog(out.Logger())
	line := func(kind string) string {
		out.Reset()
		log.Errorf("127.0.0.1:1 - cid:7 - "+kind+" %q", quoted)
		return strings.TrimSpace(out.String())
	}
	want := func(got string, lines int) {
		t.Helper()
		if want := fmt.Sprintf(`{"level":"error","message":"Violation","client":7,"lines":%d}`, lines); got != want {
			t.Errorf("logged %s, want %s", got, want)
		}
	}
	want(line("Violation"), 1)
	for range 100 {
		if got := line("Violation"); got != "" {
			t.Errorf("logged %s", got)
		}
	}
	if line("Other") == "" {
		t.Error("one kind hides another one")
	}
	time.Sleep(10 * time.Second)
	want(line("Violation"), 101)
}

// Lines that say that too many files are open are limited; others are not.
func TestLinesAboutOpenFilesAreLimited(t *testing.T) {
	var out logtest.Log
	log := newNatsLog(out.Logger())
	failed := &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	for range 3 {
		log.Errorf("Temporary %s Accept Error(%v), sleeping %dms", "Client", failed, 10)
		log.Errorf("Error with the store: %v", syscall.EMFILE)
		log.Errorf("Error with the store: %v", syscall.EIO)
	}
	const files, other = `"message":"Temporary Client Accept Error(accept tcp: accept4: too many open files), sleeping 10ms","lines":1}`, "input/output error"
	if got := out.String(); strings.Count(got, `{"level":"warn",`) != 2 || !strings.Contains(got, files) || strings.Count(got, other) != 3 {
		t.Errorf("logged\n%s", got)
	}
}

// Text of clients does not get into the log, and clients cannot flood the log.
func TestClientsAreNotQuoted(t *testing.T) {
	logged := &logtest.Log{}
	srv := startServer(t, Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0", Logger: logged.Logger()})
	connect := `CONNECT {"verbose":false,"name":"` + quoted + `"}` + "\r\n"
	for _, sent := range []string{
		quoted + "\r\n",
		connect + "PUB kvslots.inspect 36\r\n" + quoted + quoted + "\r\n",
		connect + "PUB " + quoted + " x\r\n",
		connect + "-ERR " + quoted + "\r\n",
		connect + "SUB " + strings.Repeat(quoted, 200) + " 1\r\n",
		connect + strings.Repeat("PUB "+quoted+" 0\r\n\r\nSUB "+quoted+" 1\r\n", 1000) + "bye\r\n",
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(srv.ClientURL(), "nats://"))
		kvslotstest.Must(t, err)
		answers := make(chan struct{})
		go func() {
			defer close(answers)
			_, _ = io.Copy(io.Discard, conn) // until the server hangs up
		}()
		_, _ = io.WriteString(conn, sent)
		<-answers
		conn.Close()
	}
	text := logged.String()
	for i := range len(quoted) - 8 {
		if part := quoted[i : i+8]; strings.Contains(text, part) {
			t.Fatalf("%q is in the log:\n%.2000s", part, text)
		}
	}
	for _, kind := range []string{"Client parser ERROR", "Publish Violation - Subject", "Subscription Violation - Subject", "maximum control line exceeded"} {
		if n := strings.Count(text, `"message":"`+kind+`"`); n < 1 || n > 10 {
			t.Errorf("%d lines of the kind %s:\n%.2000s", n, kind, text)
		}
	}
}
