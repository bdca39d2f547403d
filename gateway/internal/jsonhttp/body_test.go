package jsonhttp

import (
	"bufio"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/wire"
)

func TestReadBody(t *testing.T) {
	for _, c := range []struct {
		name, request string
		want          string
	}{
		{"with length", "Content-Length: 2\r\n\r\n{}", `200 {"got":2}`},
		{"in chunks", "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n", `200 {"got":2}`},
		{"none", "\r\n", `200 {"got":0}`},
		{"largest", "Content-Length: 65536\r\n\r\n" + strings.Repeat(" ", wire.MaxBody), `200 {"got":65536}`},
		{"too large", "Content-Length: 65537\r\n\r\n" + strings.Repeat(" ", wire.MaxBody+1), `413 {"error":"body must be at most 64 KiB"}`},
		{"too large in chunks", "Transfer-Encoding: chunked\r\n\r\n10001\r\n" + strings.Repeat(" ", wire.MaxBody+1) + "\r\n0\r\n\r\n", `413 {"error":"body must be at most 64 KiB"}`},
		{"bad chunk", "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}", `400 {"error":"body must be one JSON object"}`},
		{"never complete", "Content-Length: 2\r\n\r\n{", `408 {"error":"body did not arrive in time"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if got := talk(t, readBodies(time.Second, nil), "POST / HTTP/1.1\r\nHost: x\r\n"+c.request); got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
			})
		})
	}
}

// The deadline is for the body alone: a borrow waits much longer.
func TestDeadlineEndsWithTheBody(t *testing.T) {
	const limit = time.Second
	outlive := func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(3 * limit):
			return nil
		}
	}
	synctest.Test(t, func(t *testing.T) {
		if got, want := talk(t, readBodies(limit, outlive), "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"), `200 {"got":2}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestDone(t *testing.T) {
	done := func(w http.ResponseWriter, _ *http.Request) {
		if err := Done(w); err != nil {
			t.Error(err)
		}
	}
	if got := talk(t, done, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); got != "204 " {
		t.Errorf("got %q", got)
	}
}

func TestAnswerFailsAfterHangUp(t *testing.T) {
	answered := make(chan error, 1)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		conn.Close()
		answered <- Answer(w, http.StatusOK, wire.Deleted{Deleted: true})
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains about the hijack
	srv.Start()
	defer srv.Close()
	if resp, err := http.Get(srv.URL); err == nil {
		resp.Body.Close()
		t.Error("an answer over a closed connection")
	}
	if err := <-answered; err == nil {
		t.Error("no error")
	}
}

// readBodies answers with the length of the body, after the call to then.
func readBodies(limit time.Duration, then func(context.Context) error) http.HandlerFunc {
	handler := func(w http.ResponseWriter, r *http.Request) error {
		x := &exchange{w: w, r: r, body: http.MaxBytesReader(w, r.Body, wire.MaxBody)}
		body, err := (&wire.Source{Stream: x}).ReadBody()
		if err != nil {
			return err
		}
		if then != nil {
			if err := then(r.Context()); err != nil {
				return err
			}
		}
		return Answer(w, http.StatusOK, map[string]int{"got": len(body)})
	}
	return func(w http.ResponseWriter, r *http.Request) {
		LimitBodyTime(w, r, limit)
		if err := handler(w, r); err != nil {
			Refuse(w, wire.StatusOf(err))
		}
	}
}

// within is a listener that accepts connections within the process.
type within chan net.Conn

func (l within) Accept() (net.Conn, error) {
	conn, ok := <-l
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (l within) Close() error {
	close(l)
	return nil
}

func (within) Addr() net.Addr { return &net.TCPAddr{} }

// talk sends raw text over a connection within the process, and returns the status and the
// body of the handler's answer.
func talk(t *testing.T, handler http.HandlerFunc, request string) string {
	t.Helper()
	conn, theirs := net.Pipe()
	ln := make(within, 1)
	ln <- theirs
	srv := &http.Server{Handler: handler}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	defer func() {
		conn.Close()
		if err := srv.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		<-served
	}()
	go io.WriteString(conn, request) // ends with the connection, if the server does not read all of it
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	kvslotstest.Must(t, err)
	body, err := io.ReadAll(resp.Body)
	kvslotstest.Must(t, err)
	return resp.Status[:3] + " " + string(body)
}
