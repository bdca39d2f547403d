package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// While NATS is down, requests are refused within bounds, as retryable. Afterwards all
// leases are as before.
func TestOutageOfNATS(t *testing.T) {
	t.Parallel() // waits for seconds
	options := server.Options{Host: "127.0.0.1", Port: kvslotstest.Port(t), JetStream: true, StoreDir: t.TempDir()}
	nats, url := runNATS(t, options)
	p := startServe(t, noEnv, "--nats-url", url)
	p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	p.want(t, "POST", "/l/"+pool+"/borrow", `{"ttl":600}`, 200, "")

	nats.Shutdown()
	nats.WaitForShutdown()
	const reason = "NATS is not connected"
	p.eventually(t, "/ready", reason)
	p.want(t, "GET", "/ready", "", 503, reason)
	if line := p.logs.waitFor(t, "not ready: send borrowers elsewhere"); !strings.Contains(fmt.Sprint(line["reason"]), reason) {
		t.Errorf("logged %v", line)
	}
	for _, name := range []string{"bucket", "service", "functions"} {
		p.logs.Await(t, func(text string) bool { return strings.Contains(text, `"connection":"`+name+`"`) })
	}
	started := time.Now()
	var refusals sync.WaitGroup
	refusals.Go(func() { p.want(t, "GET", "/l/"+pool, "", 502, "safe to retry") })
	refusals.Go(func() { p.want(t, "POST", "/l/"+pool+"/borrow", `{"ttl":600}`, 502, "safe to retry") })
	refusals.Wait()
	if took := time.Since(started); took > 20*time.Second {
		t.Errorf("the refusals took %v", took)
	}
	p.want(t, "GET", "/health", "", 200, "ok")

	runNATS(t, options)
	p.eventually(t, "/ready", `"status":"ready"`)
	p.want(t, "GET", "/l/"+pool, "", 200, `"in_use":1`)
	p.want(t, "POST", "/l/"+pool+"/borrow", `{"ttl":600}`, 409, "")
	p.end(t) // while NATS is running
}

// A gateway that is started before its NATS server waits for it, and logs that once.
func TestServeWaitsForNATS(t *testing.T) {
	const connections = 40 // more than the requests below, since the gateway may notice late that one is closed
	port := kvslotstest.Port(t)
	p := runServe(t, noEnv, "--nats-url", "nats://ann:hunter2@"+addressOf(port), "--max-connections-per-ip", strconv.Itoa(connections))
	p.url = "http://" + p.logs.waitFor(t, "waiting for NATS")["http"].(string)
	for range 3 {
		p.want(t, "GET", "/health", "", 200, `"ok"`)
		p.want(t, "GET", "/ready", "", 503, `"reason":"NATS does not answer yet"`)
		p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 502, "safe to retry")
		p.want(t, "POST", "/v1/sessions", "{}", 502, `"error":"unavailable"`)
	}
	p.wantGuarded(t, connections)
	runNATS(t, server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: t.TempDir()})
	p.logs.waitFor(t, "listening")
	p.eventually(t, "/ready", `"ready"`)
	p.want(t, "PUT", "/l/"+pool, `{"count":1}`, 200, "")
	p.end(t)
	if n := strings.Count(p.logs.String(), "waiting for NATS"); n != 1 || strings.Contains(p.logs.String(), "hunter2") {
		t.Errorf("logged %d times:\n%s", n, p.logs)
	}
}

// wantGuarded checks that requests get an id, and that a client gets no more connections
// than its limit.
func (p *program) wantGuarded(t *testing.T, limit int) {
	t.Helper()
	for open := 0; ; open++ {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		kvslotstest.Must(t, err)
		defer conn.Close()
		fmt.Fprint(conn, "GET /v1/stats HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: mine\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		kvslotstest.Must(t, err)
		if resp.StatusCode == http.StatusTooManyRequests {
			return
		}
		if got := resp.Header.Get("X-Request-Id"); got != "mine" || open >= limit {
			t.Fatalf("connection %d: %s, X-Request-Id is %q", open, resp.Status, got)
		}
	}
}

// A gateway that is stopped while it waits for NATS ends normally.
func TestStoppedWhileWaitingForNATS(t *testing.T) {
	p := runServe(t, noEnv, "--nats-url", "nats://"+closedPort(t))
	p.logs.waitFor(t, "waiting for NATS")
	p.end(t)
}

// eventually waits until an answer contains a text.
func (p *program) eventually(t *testing.T, path, text string) {
	t.Helper()
	kvslotstest.Eventually(t, path+" says "+text, func() bool {
		_, answer := p.ask(t, "GET", path, "")
		return strings.Contains(answer, text)
	})
}
