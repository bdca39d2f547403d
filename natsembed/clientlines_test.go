package natsembed

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

const quoted = "9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01"

// Text of clients does not get into the log.
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
		if n := strings.Count(text, `"message":"`+kind+`"`); n < 1 {
			t.Errorf("%d lines of the kind %s:\n%.2000s", n, kind, text)
		}
	}
}
