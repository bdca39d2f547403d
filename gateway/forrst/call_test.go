package forrst_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway/forrst"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const second30 = `"ttl":{"value":30,"unit":"second"}`

func TestLocalFunctions(t *testing.T) {
	_, d := startSite(t, functions(map[string]forrst.Func{
		"a.echo":    func(_ context.Context, c forrst.Call) (any, error) { return c.Arguments, nil },
		"a.nothing": func(context.Context, forrst.Call) (any, error) { return nil, nil },
		"a.fails":   func(context.Context, forrst.Call) (any, error) { return nil, errors.New("hidden") },
		"a.told": func(context.Context, forrst.Call) (any, error) {
			return nil, &forrst.Error{Code: "NO_FUNDS", Message: "No funds", Details: map[string]int{"missing": 3}, Retryable: true}
		},
		"a.panics": func(context.Context, forrst.Call) (any, error) { panic("hidden") },
		"a.deep": func(context.Context, forrst.Call) (any, error) {
			return json.RawMessage(strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)), nil
		},
		"a.nojson": func(context.Context, forrst.Call) (any, error) { return make(chan int), nil },
		"a.lock": func(_ context.Context, c forrst.Call) (any, error) {
			return strconv.FormatBool(c.Lock.FullKey == "lock:a.lock:k" && c.Lock.Fence > 0 && c.Lock.Owner == "ann" && time.Until(c.Lock.ExpiresAt) > 0), nil
		},
	}))
	for _, c := range []struct {
		function string
		code     int
		text     string
	}{
		{"a.echo", 200, `"result":{"n":12345678901234567890}`},
		{"a.nothing", 200, `"result":null`},
		{"a.fails", 422, `"errors":[{"code":"FUNCTION_ERROR","message":"The function failed","retryable":false}]`},
		{"a.told", 422, `"errors":[{"code":"NO_FUNDS","message":"No funds","details":{"missing":3},"retryable":true}]`},
		{"a.panics", 422, `"code":"INTERNAL_ERROR"`},
		{"a.nojson", 422, `"code":"FUNCTION_ERROR"`},
		{"a.deep", 422, `"code":"INTERNAL_ERROR"`},
		{"a.none", 404, `"code":"FUNCTION_NOT_FOUND"`},
	} {
		d.call(t, c.function, `{"n":12345678901234567890}`, "", c.code, c.text)
		locked := d.call(t, c.function, `{"n":12345678901234567890}`, `{"key":"k",`+second30+`}`, c.code, c.text)
		if strings.Contains(string(locked.body), "hidden") {
			t.Errorf("%s", locked.body)
		}
		if data := locked.lock(t); data.Released || data.Expired || (data.Owner == "") != (c.code == 404) {
			t.Errorf("%s", locked.body)
		}
		d.wantFree(t, "lock:"+c.function+":k")
	}
	d.call(t, "a.lock", "", `{"key":"k","owner":"ann",`+second30+`}`, 200, `"result":"true"`)
}

func TestHandlePanics(t *testing.T) {
	f := func(context.Context, forrst.Call) (any, error) { return nil, nil }
	var all forrst.Functions
	all.Handle("a.b", f)
	for name, function := range map[string]forrst.Func{
		"a.b": f, "": f, "a..b": f, "a.*": f, ">": f, "$SRV.PING": f, "a b": f, "forrst.x": f,
		"urn:cline:forrst:fn:ping": f, strings.Repeat("x", 129): f, "a.c": nil,
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q is taken", name)
				}
			}()
			all.Handle(name, function)
		}()
	}
}

func TestRemoteFunctions(t *testing.T) {
	s, d := startSite(t, nil)
	for name, c := range map[string]struct {
		data, service, code string // of the reply, and its headers
		status              int
		text                string
	}{
		"r.object":   {`{"ok":1.0}`, "", "", 200, `"result":{"ok":1.0}`},
		"r.number":   {`42`, "", "", 200, `"result":42`},
		"r.empty":    {``, "", "", 200, `"result":null`},
		"r.text":     {`no JSON`, "", "", 422, `"code":"INTERNAL_ERROR"`},
		"r.latin":    {"\"\xff\"", "", "", 422, `"code":"INTERNAL_ERROR"`},
		"r.errors":   {`{"errors":[{"code":"A","message":"a","x":1},{"code":"B","message":"b"}]}`, "", "", 422, `"errors":[{"code":"A","message":"a","x":1},{"code":"B","message":"b"}]`},
		"r.null":     {`{"result":null,"errors":[{"code":"A","message":"a"}]}`, "", "", 422, `"errors":[{"code":"A","message":"a"}]`},
		"r.odd":      {`{"errors":["bad"]}`, "", "", 422, `"errors":[{"code":"FUNCTION_ERROR","message":"The function failed","details":"bad","retryable":false}]`},
		"r.report":   {`{"errors":[{"code":"A","message":"a"}],"checked":3}`, "", "", 422, `"errors":[{"code":"A","message":"a"}]`},
		"r.envelope": {`{"protocol":{"name":"forrst","version":"0.1.0"},"id":"x","result":null,"errors":[{"code":"A","message":"a"}]}`, "", "", 422, `"result":null,"errors":[{"code":"A","message":"a"}]`},
		"r.whole":    {`{"protocol":{"name":"forrst","version":"0.1.0"},"id":"x","result":{"ok":1.0},"errors":[]}`, "", "", 200, `"id":"r","result":{"ok":1.0},`},
		"r.like":     {`{"protocol":"forrst","result":1}`, "", "", 200, `"result":{"protocol":"forrst","result":1}`},
		"r.object2":  {`{"errors":{"a":1}}`, "", "", 200, `"result":{"errors":{"a":1}}`},
		"r.nulls":    {`{"errors":null}`, "", "", 200, `"result":{"errors":null}`},
		"r.code":     {``, "-", "402", 422, `"errors":[{"code":"402","message":"The function failed","retryable":false}]`},
		"r.none":     {`{"errors":[]}`, "", "", 200, `"result":{"errors":[]}`},
		"r.service":  {``, "no funds", "402", 422, `"errors":[{"code":"402","message":"no funds","retryable":false}]`},
		"r.codeless": {`{"missing":3}`, "no funds", "", 422, `"errors":[{"code":"FUNCTION_ERROR","message":"no funds","details":{"missing":3},"retryable":false}]`},
		"r.control":  {`{"errors":[{"code":"A\u001b[2J","message":"a"}]}`, "", "", 422, `"errors":[{"code":"FUNCTION_ERROR","message":"The function failed","details":{"code":"A\u001b[2J","message":"a"},"retryable":false}]`},
		"r.bidi":     {``, "no funds", "\u202e204", 422, `"errors":[{"code":"FUNCTION_ERROR","message":"no funds","retryable":false}]`},
		"r.both":     {`{"errors":[{"code":"A","message":"a"}]}`, "no funds", "402", 422, `"errors":[{"code":"A","message":"a"}]`},
	} {
		s.function(t, name, func(m *nats.Msg) {
			reply := nats.NewMsg(m.Reply)
			reply.Data = []byte(c.data)
			if c.service == "-" { // the header is present and empty
				reply.Header.Set("Nats-Service-Error", "")
			} else if c.service != "" {
				reply.Header.Set("Nats-Service-Error", c.service)
			}
			if c.code != "" {
				reply.Header.Set("Nats-Service-Error-Code", c.code)
			}
			_ = m.RespondMsg(reply)
		})
		d.call(t, name, "", `{"key":"k",`+second30+`}`, c.status, c.text)
		d.wantFree(t, "lock:"+name+":k")
	}
}

// A function in another process receives the call, the id of its request, and the fence
// and remaining time of its lock.
func TestRemoteRequest(t *testing.T) {
	s, d := startSite(t, nil)
	requests := make(chan *nats.Msg, 2)
	s.function(t, "r.f", func(m *nats.Msg) {
		requests <- m
		_ = m.Respond(nil)
	})
	d.post(t, `{"protocol":{"name":"forrst","version":"0.1.0"},"id":"r","context":{"caller":"x"},"call":{"function":"r.f","version":"2.1.0","arguments":{"a":[1,"<"]}}}`)
	m := <-requests
	if string(m.Data) != `{"function":"r.f","version":"2.1.0","arguments":{"a":[1,"<"]}}` || len(m.Header) != 1 || m.Header.Get("X-Request-Id") == "" {
		t.Errorf("%s %v", m.Data, m.Header)
	}
	a := d.call(t, "r.f", "", `{"key":"k",`+second30+`}`, 200, "")
	m = <-requests
	left, err := strconv.Atoi(m.Header.Get(wire.LockEndsInHeader))
	if err != nil || left < 1000 || left > 30_000 || m.Header.Get(wire.FenceHeader) != strconv.FormatUint(a.lock(t).Fence, 10) {
		t.Errorf("%v, %v", m.Header, err)
	}
	if string(m.Data) != `{"function":"r.f","arguments":{}}` {
		t.Errorf("%s", m.Data)
	}
}

// blockingFunc is a function that blocks until the test releases it.
type blockingFunc struct{ entered, leave chan struct{} }

func newBlockingFunc() blockingFunc {
	return blockingFunc{make(chan struct{}, 16), make(chan struct{})}
}

func (h blockingFunc) call(ctx context.Context, _ forrst.Call) (any, error) {
	h.entered <- struct{}{}
	select {
	case <-h.leave:
		return "done", nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestScopes(t *testing.T) {
	one, two := newBlockingFunc(), newBlockingFunc()
	s := newSite(t)
	f := functions(map[string]forrst.Func{"f.one": one.call, "f.two": two.call})
	gateways := []*testGateway{s.startGateway(t, forrst.Config{Functions: f}), s.startGateway(t, forrst.Config{Functions: f})}
	done := make(chan answer, 3)
	go func() { done <- gateways[0].call(t, "f.one", "", `{"key":"k",`+second30+`}`, 200, "done") }()
	<-one.entered
	// The function's name is part of the key.
	gateways[1].call(t, "f.one", "", `{"key":"k",`+second30+`}`, 423, `"full_key":"lock:f.one:k"`)
	go func() { done <- gateways[1].call(t, "f.two", "", `{"key":"k",`+second30+`}`, 200, "done") }()
	<-two.entered
	// A global key is another lock, and the same for both functions.
	go func() {
		done <- gateways[0].call(t, "f.one", "", `{"key":"k","scope":"global",`+second30+`}`, 200, "done")
	}()
	<-one.entered
	gateways[1].call(t, "f.two", "", `{"key":"k","scope":"global",`+second30+`}`, 423, `"full_key":"lock:k"`)
	close(one.leave)
	close(two.leave)
	for range 3 {
		<-done
	}
}

// With auto_release false the lock is held until the caller releases it.
func TestManualRelease(t *testing.T) {
	s := newSite(t)
	f := functions(map[string]forrst.Func{"f.f": func(context.Context, forrst.Call) (any, error) { return 1, nil }})
	a, b := s.startGateway(t, forrst.Config{Functions: f}), s.startGateway(t, forrst.Config{Functions: f})
	kept := a.call(t, "f.f", "", `{"key":"k","auto_release":false,"owner":"ann",`+second30+`}`, 200, `"owner":"ann"`)
	b.call(t, "f.f", "", `{"key":"k","owner":"ann",`+second30+`}`, 423, `"retryable":true`)
	b.call(t, status, `{"key":"lock:f.f:k"}`, "", 200, `"fence":`+strconv.FormatUint(kept.lock(t).Fence, 10))
	b.call(t, release, `{"key":"lock:f.f:k","owner":"bob"}`, "", 409, `"code":"LOCK_OWNERSHIP_MISMATCH"`)
	b.call(t, release, `{"key":"lock:f.f:k","owner":"ann"}`, "", 200, `"released":true`)
	a.call(t, release, `{"key":"lock:f.f:k","owner":"ann"}`, "", 409, `"code":"LOCK_ALREADY_RELEASED"`)
	b.call(t, release, `{"key":"lock:f.f:k","owner":"ann"}`, "", 409, `"code":"LOCK_ALREADY_RELEASED"`)
	b.call(t, release, `{"key":"lock:f.f:k","owner":"bob"}`, "", 404, `"code":"LOCK_NOT_FOUND"`)
	b.call(t, forceRelease, `{"key":"lock:f.f:k"}`, "", 404, `"code":"LOCK_NOT_FOUND"`)
	// The call's own release counts, too.
	owner := a.call(t, "f.f", "", `{"key":"j",`+second30+`}`, 200, "").lock(t).Owner
	b.call(t, release, `{"key":"lock:f.f:j","owner":"`+owner+`"}`, "", 409, `"code":"LOCK_ALREADY_RELEASED"`)
}

// A call of an unknown function leaves no lock behind, even with auto_release false.
func TestNothingRan(t *testing.T) {
	_, d := startSite(t, nil)
	a := d.call(t, "f.none", "", `{"key":"k","auto_release":false,`+second30+`}`, 404, `"data":{"key":"k","acquired":false}`)
	if !strings.Contains(string(a.body), `"code":"FUNCTION_NOT_FOUND"`) {
		t.Errorf("%s", a.body)
	}
	d.wantFree(t, "lock:f.none:k")
}

// A call ends when its connection is closed; its function may have been carried out.
func TestCallEndsWithTheConnection(t *testing.T) {
	s := newSite(t)
	nc := s.connect(t, s.server.ConnectService, nats.ReconnectBufSize(-1), nats.CustomInboxPrefix("_KVSLOTS.x"))
	s.function(t, "c.f", func(*nats.Msg) { nc.Close() })
	server := forrst.New(nil, forrst.Config{NATS: nc, Functions: &forrst.Functions{}, Logger: logtest.Logger()})
	code, _, answer := ask(t, server, envelope("c.f", "", ""), "")
	if code != 503 || !strings.Contains(string(answer), `"retryable":false`) {
		t.Errorf("%d %s", code, answer)
	}
}

// The log names a function that cannot be called, and the reason.
func TestUncallableFunctionIsNamed(t *testing.T) {
	closed := fmt.Sprintf("nats://127.0.0.1:%d", kvslotstest.Port(t))
	nc, err := nats.Connect(closed, nats.RetryOnFailedConnect(true), nats.ReconnectBufSize(-1))
	kvslotstest.Must(t, err)
	defer nc.Close()
	lines := &logtest.Log{}
	server := forrst.New(nil, forrst.Config{NATS: nc, Functions: &forrst.Functions{}, Logger: lines.Logger()})
	code, _, answer := ask(t, server, envelope("r.f", "", ""), "")
	if text := lines.String(); code != 503 || !strings.Contains(text, `"function":"r.f","nats_connected":false`) {
		t.Errorf("%d %s\n%s", code, answer, text)
	}
}

// An answer reports that its function has outlived the lock, or that the lock was
// released meanwhile.
func TestLostLocks(t *testing.T) {
	h := newBlockingFunc()
	_, d := startSite(t, functions(map[string]forrst.Func{"f.f": h.call}))
	for _, c := range []struct {
		name, release     string
		lose              func()
		expired, released bool
	}{
		{"kept", "true", func() {}, false, false},
		{"expired", "true", func() { d.waitExpired(t) }, true, false},
		{"expired, and not to be released", "false", func() { d.waitExpired(t) }, true, false},
		{"released", "true", func() { d.call(t, forceRelease, `{"key":"lock:f.f:k"}`, "", 200, "") }, false, true},
	} {
		ttl := "30"
		if c.expired {
			ttl = "1"
		}
		done := make(chan answer)
		go func() {
			done <- d.call(t, "f.f", "", `{"key":"k","ttl":{"value":`+ttl+`,"unit":"second"},"auto_release":`+c.release+`}`, 200, "done")
		}()
		<-h.entered
		c.lose()
		h.leave <- struct{}{}
		if data := (<-done).lock(t); data.Expired != c.expired || data.Released != c.released {
			t.Errorf("%s: %+v", c.name, data)
		}
	}
}

func (d *testGateway) waitExpired(t *testing.T) {
	t.Helper()
	gatewaytest.Eventually(t, "the lock expires", func() bool {
		status, err := d.store.OwnedStatus(t.Context(), "lock:f.f:k")
		return err == nil && !status.Held
	})
}

// A function of this process that exceeds its time does not keep its lock.
func TestDeadline(t *testing.T) {
	goOn := make(chan struct{})
	s := newSite(t)
	d := s.startGateway(t, forrst.Config{
		Timeout: 100 * time.Millisecond,
		Functions: functions(map[string]forrst.Func{
			"f.deaf":  func(context.Context, forrst.Call) (any, error) { <-goOn; return nil, nil },
			"f.heeds": func(ctx context.Context, _ forrst.Call) (any, error) { <-ctx.Done(); return nil, ctx.Err() },
		}),
	})
	defer close(goOn)
	for _, name := range []string{"f.deaf", "f.heeds"} {
		d.call(t, name, "", `{"key":"k",`+second30+`}`, 504, `"code":"DEADLINE_EXCEEDED"`)
		d.wantFree(t, "lock:"+name+":k")
	}
}

// A call continues when its client hangs up. The lock is released when the call ends.
func TestHangUp(t *testing.T) {
	h := newBlockingFunc()
	_, d := startSite(t, functions(map[string]forrst.Func{"f.f": h.call}))
	conn := d.send(t, envelope("f.f", "", `{"key":"k",`+second30+`}`))
	<-h.entered
	conn.Close()
	// Another caller waits, and gets the lock only after the function has ended.
	next := make(chan answer)
	go func() {
		next <- d.call(t, "f.f", "", `{"key":"k",`+second30+`,"block":{"value":1,"unit":"minute"}}`, 200, "done")
	}()
	gatewaytest.Eventually(t, "another call waits", func() bool { return d.waiters(t) == 1 })
	if len(h.entered) != 0 {
		t.Error("the lock was lent twice")
	}
	d.call(t, status, `{"key":"lock:f.f:k"}`, "", 200, `"locked":true`)
	h.leave <- struct{}{}
	<-h.entered
	h.leave <- struct{}{}
	<-next
	d.wantFree(t, "lock:f.f:k")
}

// A client that hangs up while its call waits for the lock leaves the line.
func TestHangUpInLine(t *testing.T) {
	h := newBlockingFunc()
	_, d := startSite(t, functions(map[string]forrst.Func{"f.f": h.call}))
	first := make(chan answer)
	go func() { first <- d.call(t, "f.f", "", `{"key":"k",`+second30+`}`, 200, "done") }()
	<-h.entered
	conn := d.send(t, envelope("f.f", "", `{"key":"k",`+second30+`,"block":{"value":1,"unit":"minute"}}`))
	gatewaytest.Eventually(t, "another call waits", func() bool { return d.waiters(t) == 1 })
	conn.Close()
	gatewaytest.Eventually(t, "it has left the line", func() bool { return d.waiters(t) == 0 })
	h.leave <- struct{}{}
	<-first
	if len(h.entered) != 0 {
		t.Error("the function was called for a client that had gone")
	}
}

// send posts an envelope on a new connection.
func (d *testGateway) send(t *testing.T, body string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", d.Addr)
	kvslotstest.Must(t, err)
	r, err := http.NewRequest("POST", d.url, strings.NewReader(body))
	kvslotstest.Must(t, err)
	kvslotstest.Must(t, r.Write(conn))
	return conn
}

// waiters returns the number of waiters of all locks.
func (d *testGateway) waiters(t *testing.T) (n int) {
	t.Helper()
	stats, err := d.store.Stats(t.Context())
	kvslotstest.Must(t, err)
	for _, name := range stats.Names {
		n += len(name.Waiters)
	}
	return n
}
