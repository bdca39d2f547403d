package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// rpc returns an envelope that calls a function with the options of a lock.
func rpc(function, arguments, options string) string {
	text := `{"protocol":{"name":"forrst","version":"0.1.0"},"id":"r","call":{"function":"` + function + `","arguments":` + arguments + `}`
	if options != "" {
		text += `,"extensions":[{"urn":"urn:forrst:ext:atomicLock","options":` + options + `}]`
	}
	return text + `}`
}

const lockStatus = "urn:cline:forrst:ext:atomic-lock:fn:status"

// serveFunction answers calls of a function until the test ends.
func serveFunction(t *testing.T, url, name string, handler nats.MsgHandler, opts ...nats.Option) {
	t.Helper()
	nc, err := nats.Connect(url, opts...)
	kvslotstest.Must(t, err)
	t.Cleanup(nc.Close)
	_, err = nc.Subscribe("forrst.fn."+name, handler)
	kvslotstest.Must(t, errors.Join(err, nc.Flush(), nc.LastError()))
}

func done(m *nats.Msg) { _ = m.Respond([]byte(`"done"`)) }

const lock30 = `{"key":"k","ttl":{"value":30,"unit":"second"}}`

// Function services connect to the listener, with their own credentials, or without any
// if the listener needs none.
func TestFunctionsConnect(t *testing.T) {
	pair, key, _ := newNkey(t)
	for name, c := range map[string]struct {
		args   []string
		option nats.Option
	}{
		"open": {nil, nats.Name("x")},
		"nkey": {[]string{"--forrst-fn-nkeys", " " + key}, nats.Nkey(key, pair.Sign)},
	} {
		t.Run(name, func(t *testing.T) {
			p := startServe(t, noEnv, append(c.args, "--data-dir", t.TempDir(), "--nats-addr", "127.0.0.1:0", "--log-level", "debug")...)
			url := p.logs.waitFor(t, "listening")["nats"].(string)
			serveFunction(t, url, "a.b", done, c.option)
			p.want(t, "POST", "/rpc", rpc("a.b", `{}`, lock30), 200, `"result":"done"`)
			p.want(t, "POST", "/rpc", rpc("a.c", `{}`, lock30), 404, `"FUNCTION_NOT_FOUND"`)
			p.want(t, "POST", "/rpc", rpc(lockStatus, `{"key":"lock:a.c:k"}`, ""), 200, `"locked":false`)
		})
	}
}

// Without a listener no other process can serve functions.
func TestNoFunctionsWithoutAListener(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir())
	p.want(t, "POST", "/rpc", rpc("a.b", `{}`, lock30), 404, `"FUNCTION_NOT_FOUND"`)
	p.want(t, "POST", "/rpc", rpc(lockStatus, `{"key":"lock:k"}`, ""), 200, `"locked":false`)
}

// The locks of a call at one gateway are visible at another gateway, in the status of a
// lock and in statistics. kvslots.rpc answers like /rpc.
func TestGatewaysShareFunctionsLocks(t *testing.T) {
	_, url := runNATS(t, server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir()})
	one := startServe(t, noEnv, "--nats-url", url, "--auth-token", "hunter2")
	two := startServe(t, noEnv, "--nats-url", url)
	entered, leave := make(chan struct{}, 1), make(chan struct{})
	serveFunction(t, url, "a.b", func(m *nats.Msg) {
		entered <- struct{}{}
		go func() { <-leave; done(m) }()
	})
	answered := make(chan string)
	go func() {
		_, _, body := one.askWith(t, http.Header{"Authorization": {"Bearer hunter2"}}, "POST", "/rpc",
			rpc("a.b", `{}`, `{"key":"k","owner":"ann","ttl":{"value":30,"unit":"second"}}`))
		answered <- body
	}()
	<-entered
	two.want(t, "POST", "/rpc", rpc(lockStatus, `{"key":"lock:a.b:k"}`, ""), 200, `"locked":true,"owner":"ann"`)
	_, stats := two.ask(t, "GET", "/v1/stats", "")
	if !strings.Contains(stats, `{"key":"lock:a.b:k","dialect":"forrst","owner_conn_id":`) || strings.Contains(stats, "ann") {
		t.Errorf("%s", stats)
	}
	nc, err := nats.Connect(url)
	kvslotstest.Must(t, err)
	defer nc.Close()
	reply, err := nc.RequestWithContext(t.Context(), "kvslots.rpc", []byte(rpc("a.b", `{}`, lock30)))
	if err != nil || reply.Header.Get("Nats-Service-Error") != "LOCK_ACQUISITION_FAILED" || reply.Header.Get("Nats-Service-Error-Code") != "423" ||
		!strings.Contains(string(reply.Data), `"full_key":"lock:a.b:k"`) {
		t.Errorf("%+v, %v", reply, err)
	}
	wantCancelled(t, nc, two)
	close(leave)
	if body := <-answered; !strings.Contains(body, `"result":"done"`) {
		t.Errorf("%s", body)
	}
	two.want(t, "GET", "/v1/stats", "", 200, `"idle_locks":[{"key":"lock:a.b:k","dialect":"forrst","idle_s":`)
	if reply, err := nc.RequestWithContext(t.Context(), "kvslots.rpc", []byte(rpc("a.b", `{}`, lock30))); err != nil || !strings.Contains(string(reply.Data), `"result":"done"`) {
		t.Errorf("%+v, %v", reply, err)
	}
	reply, err = nc.RequestWithContext(t.Context(), "kvslots.rpc", make([]byte, 65<<10))
	if err != nil || reply.Header.Get("Nats-Service-Error-Code") != "413" || !json.Valid(reply.Data) || !strings.Contains(string(reply.Data), `"INVALID_REQUEST"`) {
		t.Errorf("%+v, %v", reply, err)
	}
}

// wantCancelled cancels a call that waits for the lock.
func wantCancelled(t *testing.T, nc *nats.Conn, p *program) {
	t.Helper()
	m := nats.NewMsg("kvslots.rpc")
	m.Data = []byte(rpc("a.b", `{}`, `{"key":"k","ttl":{"value":30,"unit":"second"},"block":{"value":1,"unit":"minute"}}`))
	m.Header.Set("Kvslots-Request", "the only one")
	answered := make(chan *nats.Msg, 1)
	go func() {
		reply, err := nc.RequestMsgWithContext(t.Context(), m)
		if err != nil {
			t.Error(err)
		}
		answered <- reply
	}()
	for stats := ""; !strings.Contains(stats, `"waiters":1`); {
		_, stats = p.ask(t, "GET", "/v1/stats", "")
	}
	cancellation := nats.NewMsg("kvslots.cancel")
	cancellation.Header = m.Header
	kvslotstest.Must(t, nc.PublishMsg(cancellation))
	if reply := <-answered; reply != nil && reply.Header.Get("Nats-Service-Error-Code") != "499" {
		t.Errorf("%+v", reply)
	}
	for stats := ""; !strings.Contains(stats, `"waiters":0`); { // the ticket is removed after the answer
		_, stats = p.ask(t, "GET", "/v1/stats", "")
	}
	m.Header.Set("Kvslots-Request", strings.Repeat("x", 65))
	if reply, err := nc.RequestMsgWithContext(t.Context(), m); err != nil || !strings.Contains(string(reply.Data), `"INVALID_REQUEST","message":"Kvslots-Request must be`) {
		t.Errorf("%+v, %v", reply, err)
	}
}

// A client gets an error if the answer is larger than a NATS message may be.
func TestLargeAnswerOverNATS(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--nats-addr", "127.0.0.1:0")
	url := p.logs.waitFor(t, "listening")["nats"].(string)
	serveFunction(t, url, "a.b", func(m *nats.Msg) { _ = m.Respond([]byte(`"` + strings.Repeat("x", 128<<10-10) + `"`)) })
	nc, err := nats.Connect(url)
	kvslotstest.Must(t, err)
	defer nc.Close()
	reply, err := nc.RequestWithContext(t.Context(), "kvslots.rpc", []byte(rpc("a.b", `{}`, "")))
	kvslotstest.Must(t, err)
	if !strings.Contains(string(reply.Data), "larger than a NATS message") {
		t.Errorf("%.200s", reply.Data)
	}
	if code, body := p.ask(t, "POST", "/rpc", rpc("a.b", `{}`, "")); code != 200 || len(body) < 128<<10-10 {
		t.Errorf("%d, %d bytes", code, len(body))
	}
}

// After SIGTERM serve waits for functions for a bounded time. Then callers over HTTP and
// NATS get an error, and the process stops normally.
func TestDrainCutsFunctionsShort(t *testing.T) {
	t.Parallel() // takes the 10 s that functions have
	process, p := serveProcess(t, "--data-dir", t.TempDir(), "--nats-addr", "127.0.0.1:0", "--drain-wait", "0s")
	url := p.logs.waitFor(t, "listening")["nats"].(string)
	entered := make(chan struct{}, 2)
	serveFunction(t, url, "a.b", func(*nats.Msg) { entered <- struct{}{} })
	nc, err := nats.Connect(url)
	kvslotstest.Must(t, err)
	defer nc.Close()
	answers := make(chan string, 2)
	go func() {
		code, body := p.ask(t, "POST", "/rpc", rpc("a.b", `{}`, lock30))
		answers <- fmt.Sprint(code, " ", body)
	}()
	go func() {
		reply, err := nc.RequestWithContext(t.Context(), "kvslots.rpc", []byte(rpc("a.b", `{}`, `{"key":"other","ttl":{"value":30,"unit":"second"}}`)))
		if err != nil {
			answers <- err.Error()
			return
		}
		answers <- reply.Header.Get("Nats-Service-Error-Code") + " " + string(reply.Data)
	}()
	<-entered
	<-entered
	kvslotstest.Must(t, process.Process.Signal(syscall.SIGTERM))
	for range 2 {
		if got := <-answers; !strings.HasPrefix(got, "503 ") || !strings.Contains(got, `"UNAVAILABLE"`) || !strings.Contains(got, `"owner":`) {
			t.Errorf("%s", got)
		}
	}
	if err := process.Wait(); err != nil {
		t.Errorf("%v\n%s", err, p.logs)
	}
	if !strings.Contains(p.logs.String(), `"calls":2,`) {
		t.Errorf("%s", p.logs)
	}
}
