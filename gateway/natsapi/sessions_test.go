package natsapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/dflockd"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	someSession = "0123456789abcdef0123456789abcdef"
	someToken   = "00065f1c2e7a5b3d4c8ea1f06d2b9c4e"
)

// openSessions serves sessions over NATS and over HTTP, as one gateway does.
func openSessions(t *testing.T, srv *kvslotstest.Server, pools ops.Pools, sessions ops.Sessions) (*door, *httptest.Server) {
	t.Helper()
	turns := gateway.NewTurns()
	d := openDoor(t, srv, pools, func(c *natsapi.Config) { c.Sessions, c.Turns = sessions, turns })
	gw := gateway.New(gateway.Config{
		Store:   gatewaytest.Ready{},
		Lending: d.lending,
		Dialects: []gateway.Dialect{dflockd.New(sessions, dflockd.Config{
			Lending: d.lending, Turns: turns, Logger: zerolog.New(d.logs),
		})},
	})
	web := httptest.NewServer(gw.Handler())
	t.Cleanup(web.Close)
	return d, web
}

// over sends one request through a door: op is "session.create" or "lock.wait".
type over func(t *testing.T, op, session, key, body string) string

// sessionsOverNATS puts session and key into the body, if that is an object.
func sessionsOverNATS(d *door) over {
	return func(t *testing.T, op, session, key, body string) string {
		t.Helper()
		code, answer := d.ask(t, op, addressed(t, op, session, key, body))
		return code + " " + answer
	}
}

func addressed(t *testing.T, op, session, key, body string) string {
	t.Helper()
	var fields []string
	if session != "" {
		fields = append(fields, `"session":`+quote(t, session))
	}
	if !strings.HasPrefix(op, "session.") {
		fields = append(fields, `"key":`+quote(t, key))
	}
	rest, object := strings.CutPrefix(body, "{")
	switch {
	case body == "":
		rest = "}"
	case !object:
		return body
	}
	if rest != "}" {
		fields = append(fields, "")
	}
	return "{" + strings.Join(fields, ",") + rest
}

func quote(t *testing.T, text string) string {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(quoted)
}

// sessionsOverHTTP puts them where HTTP has them. What NATS has no 204 for is
// put into its words.
func sessionsOverHTTP(web *httptest.Server) over {
	return func(t *testing.T, op, session, key, body string) string {
		t.Helper()
		kind, verb, _ := strings.Cut(op, ".")
		method, path := http.MethodPost, "/v1/"+kind+"s/"+strings.NewReplacer("%", "%25", "/", "%2F", " ", "%20").Replace(key)
		switch {
		case op == "session.create":
			path = "/v1/sessions"
		case op == "session.delete":
			method, path = http.MethodDelete, "/v1/sessions/"+session
		case op == "session.ping":
			path = "/v1/sessions/" + session + "/ping"
		case verb != "acquire":
			path += "/" + verb
		}
		r, err := http.NewRequestWithContext(t.Context(), method, web.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if session != "" && kind != "session" {
			r.Header.Set(wire.SessionHeader, session)
		}
		resp, err := web.Client().Do(r)
		if err != nil {
			t.Error(err)
			return ""
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		if resp.StatusCode == http.StatusNoContent {
			return "200 {}"
		}
		return fmt.Sprintf("%d %s", resp.StatusCode, answer)
	}
}

// sessionCases are requests in their order. A and B are sessions, TOKEN stands
// for the last token that was given.
var sessionCases = []struct{ name, op, session, key, body string }{
	{"acquire", "lock.acquire", "A", "k", `{"acquire_timeout_s":0,"lease_ttl_s":30}`},
	{"acquire what is held", "lock.acquire", "B", "k", `{"acquire_timeout_s":0}`},
	{"renew", "lock.renew", "A", "k", `{"token":"TOKEN","lease_ttl_s":60}`},
	{"renew for the default", "lock.renew", "A", "k", `{"token":"TOKEN"}`},
	{"enqueue", "lock.enqueue", "B", "k", ``},
	{"enqueue again", "lock.enqueue", "B", "k", `{}`},
	{"wait", "lock.wait", "B", "k", `{"timeout_s":0}`},
	{"wait without a place", "lock.wait", "B", "k", `{"timeout_s":0}`},
	{"as a semaphore", "semaphore.acquire", "B", "k", `{"acquire_timeout_s":0,"limit":1}`},
	{"release", "lock.release", "A", "k", `{"token":"TOKEN"}`},
	{"release again", "lock.release", "A", "k", `{"token":"TOKEN"}`},
	{"enqueue for what is free", "lock.enqueue", "A", "k/2", ``},
	{"semaphore", "semaphore.acquire", "A", "s", `{"acquire_timeout_s":0,"limit":1}`},
	{"semaphore with another limit", "semaphore.enqueue", "B", "s", `{"limit":2}`},
	{"semaphore's line", "semaphore.enqueue", "B", "s", `{"limit":1}`},
	{"semaphore released", "semaphore.release", "A", "s", `{"token":"TOKEN"}`},
	{"semaphore awaited", "semaphore.wait", "B", "s", `{"timeout_s":10}`},
	{"semaphore renewed", "semaphore.renew", "B", "s", `{"token":"TOKEN","lease_ttl_s":99999999999999999999}`},
	{"ping", "session.ping", "A", "", ``},
	{"ping nobody", "session.ping", "x", "", ``},
	{"no session", "lock.acquire", someSession, "k", `{"acquire_timeout_s":0}`},
	{"no such session", "lock.acquire", strings.ToUpper(someSession), "k", `{"acquire_timeout_s":0}`},
	{"malformed", "lock.acquire", "A", "k", `{"acquire_timeout_s":0`},
	{"null", "lock.acquire", "A", "k", `null`},
	{"trailing data", "lock.acquire", "A", "k", `{"acquire_timeout_s":0}{}`},
	{"unknown field", "lock.acquire", "A", "k", `{"acquire_timeout_s":0,"hunter2":1}`},
	{"twice", "lock.acquire", "A", "k", `{"acquire_timeout_s":0,"acquire_timeout_s":0}`},
	{"no limit", "semaphore.acquire", "A", "k", `{"acquire_timeout_s":0}`},
	{"limit too high", "semaphore.acquire", "A", "k", `{"acquire_timeout_s":0,"limit":65536}`},
	{"no token", "lock.release", "A", "k", `{}`},
	{"unknown token", "lock.release", "A", "k", `{"token":"` + someToken + `"}`},
	{"bad key", "lock.acquire", "A", "a b", `{"acquire_timeout_s":0}`},
	{"long body", "lock.acquire", "A", "k", `{"acquire_timeout_s":0}` + strings.Repeat(" ", 64<<10)},
	{"field of a ping", "session.ping", "A", "", `{"x":1}`},
	{"field of a session", "session.create", "", "", `{"x":1}`},
	{"delete", "session.delete", "A", "", ``},
	{"delete again", "session.delete", "A", "", ``},
	{"after that", "lock.wait", "A", "k", `{"timeout_s":0}`},
	{"delete the other", "session.delete", "B", "", ``},
}

var (
	newSession = regexp.MustCompile(`^200 \{"session_id":"([0-9a-f]{32})","idle_timeout_s":20\}$`)
	newToken   = regexp.MustCompile(`"token":"([0-9a-f]{32})"`)
)

func createSession(t *testing.T, ask over) string {
	t.Helper()
	answer := ask(t, "session.create", "", "", "")
	found := newSession.FindStringSubmatch(answer)
	if found == nil {
		t.Fatalf("create: %s", answer)
	}
	return found[1]
}

func sessionTranscript(t *testing.T, ask over) (answers []string) {
	t.Helper()
	sessions := map[string]string{"A": createSession(t, ask), "B": createSession(t, ask)}
	token := ""
	for _, c := range sessionCases {
		session, known := sessions[c.session]
		if !known {
			session = c.session
		}
		answer := ask(t, c.op, session, c.key, strings.ReplaceAll(c.body, "TOKEN", token))
		if found := newToken.FindStringSubmatch(answer); found != nil {
			token = found[1]
			answer = strings.Replace(answer, token, "…", 1)
		}
		answers = append(answers, answer)
	}
	return answers
}

// Both doors answer the same, byte for byte, but for tokens.
func TestParityOfSessions(t *testing.T) {
	srv, store := openStore(t)
	d, web := openSessions(t, srv, store, store)
	overNATS := sessionTranscript(t, sessionsOverNATS(d))
	overHTTP := sessionTranscript(t, sessionsOverHTTP(web))
	for i, c := range sessionCases {
		t.Run(c.name, func(t *testing.T) {
			t.Log(overHTTP[i])
			if overNATS[i] != overHTTP[i] {
				t.Errorf("over NATS %s", overNATS[i])
			}
		})
	}
}

// Whatever the store fails of, both doors say it in the same way.
func TestParityOfSessionFailures(t *testing.T) {
	for _, err := range []error{
		kvslots.ErrSessionGone, kvslots.ErrLimitMismatch, kvslots.ErrAlreadyEnqueued, kvslots.ErrNotEnqueued, kvslots.ErrLeaseExpired,
		kvslots.ErrNotHeld, kvslots.ErrMaxLocks, kvslots.ErrMaxWaiters, kvslots.ErrMaxSessions, kvslots.ErrMaxSessionsPerOrigin,
		kvslots.ErrNoSlot, kvslots.ErrUnavailable, kvslots.ErrClosed, gateway.ErrDraining, context.DeadlineExceeded,
		&kvslots.RangeError{Field: "ttl", Range: "at least 1 second"}, errors.New("hunter2"),
	} {
		t.Run(err.Error(), func(t *testing.T) {
			store := gatewaytest.Failing{Err: fmt.Errorf("hunter2: %w", err)}
			d, web := openSessions(t, kvslotstest.Start(t, ""), store, store)
			overNATS, overHTTP := sessionsOverNATS(d), sessionsOverHTTP(web)
			for _, c := range []struct{ op, body string }{
				{"session.ping", ``}, {"session.delete", ``},
				{"lock.acquire", `{"acquire_timeout_s":0}`}, {"lock.enqueue", ``}, {"lock.wait", `{"timeout_s":0}`},
				{"semaphore.release", `{"token":"` + someToken + `"}`}, {"semaphore.renew", `{"token":"` + someToken + `"}`},
			} {
				got, want := overNATS(t, c.op, someSession, "k", c.body), overHTTP(t, c.op, someSession, "k", c.body)
				if got != want || strings.Contains(got, "hunter2") {
					t.Errorf("%s over NATS %s, over HTTP %s", c.op, got, want)
				}
			}
			if got, want := overNATS(t, "session.create", "", "", ""), overHTTP(t, "session.create", "", "", ""); got != want {
				t.Errorf("create over NATS %s, over HTTP %s", got, want)
			}
		})
	}
}

// What micro's clients look at.
func TestSessionErrorHeaders(t *testing.T) {
	srv, store := openStore(t)
	d, _ := openSessions(t, srv, store, store)
	m, err := d.nc.Request("kvslots.session.ping", []byte(`{"session":"x"}`), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if m.Header.Get("Nats-Service-Error") != "session_gone" || m.Header.Get("Nats-Service-Error-Code") != "410" {
		t.Errorf("header %v", m.Header)
	}
}

// Without Sessions nobody answers.
func TestWithoutSessions(t *testing.T) {
	srv, store := openStore(t)
	d := openDoor(t, srv, store)
	if _, err := d.nc.Request("kvslots.session.create", nil, 10*time.Second); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("got %v", err)
	}
}

// HTTP and NATS clients contending on the same key are ordered together in a
// single line.
func TestOneLine(t *testing.T) {
	srv, store := openStore(t)
	d, web := openSessions(t, srv, store, store)
	doors := []over{sessionsOverNATS(d), sessionsOverHTTP(web)}
	holder := createSession(t, doors[0])
	answer := doors[0](t, "lock.acquire", holder, "k", `{"acquire_timeout_s":0}`)
	told := make(chan string, 10)
	var sessions []string
	for i := range 10 {
		s := createSession(t, doors[i%2])
		sessions = append(sessions, s)
		go func() {
			answer := doors[i%2](t, "lock.acquire", s, "k", `{"acquire_timeout_s":60}`)
			told <- fmt.Sprint(i, " ", answer)
		}()
		d.waitForLine(t, store, "k", i+1)
	}
	for i := range 10 {
		token := newToken.FindStringSubmatch(answer)
		if token == nil {
			t.Fatalf("the one before %d was told %s", i, answer)
		}
		if got := doors[i%2](t, "lock.release", holder, "k", `{"token":"`+token[1]+`"}`); got != "200 {}" {
			t.Fatalf("release: %s", got)
		}
		answer = <-told
		if !strings.HasPrefix(answer, fmt.Sprint(i, " 200")) {
			t.Fatalf("instead of %d the lock has: %s", i, answer)
		}
		holder = sessions[i]
	}
}

// waitForLine waits until so many stand in line.
func (d *door) waitForLine(t *testing.T, store *kvslots.Store, key string, n int) {
	t.Helper()
	gatewaytest.Eventually(t, fmt.Sprintf("%d wait for %s", n, key), func() bool {
		stats, err := store.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range stats.Names {
			if name.Key == key {
				return len(name.Waiters) == n
			}
		}
		return n == 0
	})
}

// free waits until nobody holds or waits for a key.
func (d *door) free(t *testing.T, store *kvslots.Store, key string) {
	t.Helper()
	gatewaytest.Eventually(t, key+" is free", func() bool {
		stats, err := store.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range stats.Names {
			if name.Key == key {
				return false
			}
		}
		return true
	})
}

// A request over HTTP and one over NATS of the same session are served one after
// the other.
func TestTurnsAcrossDoors(t *testing.T) {
	srv, store := openStore(t)
	d, web := openSessions(t, srv, store, store)
	overNATS, overHTTP := sessionsOverNATS(d), sessionsOverHTTP(web)
	a, b := createSession(t, overNATS), createSession(t, overHTTP)
	held := newToken.FindStringSubmatch(overNATS(t, "lock.acquire", a, "k", `{"acquire_timeout_s":0}`))
	first, second := make(chan string, 1), make(chan string, 1)
	go func() { first <- overHTTP(t, "lock.acquire", b, "k", `{"acquire_timeout_s":60}`) }()
	d.waitForLine(t, store, "k", 1)
	go func() { second <- overNATS(t, "lock.acquire", b, "free", `{"acquire_timeout_s":0}`) }()
	if got := overNATS(t, "session.ping", b, "", ""); got != "200 {}" {
		t.Errorf("ping: %s", got)
	}
	select {
	case got := <-second:
		t.Fatalf("the second overtook the first: %s", got)
	case <-time.After(50 * time.Millisecond):
	}
	overNATS(t, "lock.release", a, "k", `{"token":"`+held[1]+`"}`)
	for _, told := range []chan string{first, second} {
		if got := <-told; !strings.HasPrefix(got, `200 {"status":"ok"`) {
			t.Errorf("told %s", got)
		}
	}
}

// waiterFor sends a request from a connection that can be cut.
func (d *door) waiterFor(t *testing.T, subject, body string) *requester {
	t.Helper()
	r := &requester{}
	nc, err := nats.Connect(d.srv.ClientURL(), nats.NoReconnect(), nats.SetCustomDialer(r))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	r.nc = nc
	inbox := nc.NewInbox()
	if r.answers, err = nc.SubscribeSync(inbox); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(nc.PublishRequest(subject, inbox, []byte(body)), nc.Flush()); err != nil {
		t.Fatal(err)
	}
	return r
}

// The requester is killed while it waits for a lock: the next in line gets it at
// once, not after the ttl.
func TestSessionsRequesterKilled(t *testing.T) {
	srv, store := openStore(t)
	d, _ := openSessions(t, srv, store, store)
	ask := sessionsOverNATS(d)
	a, b, c := createSession(t, ask), createSession(t, ask), createSession(t, ask)
	for _, how := range []string{"acquire", "wait"} {
		t.Run(how, func(t *testing.T) {
			for range 20 {
				held := newToken.FindStringSubmatch(ask(t, "lock.acquire", a, "k", `{"acquire_timeout_s":0,"lease_ttl_s":600}`))
				body := `{"acquire_timeout_s":60,"lease_ttl_s":600}`
				if how == "wait" {
					ask(t, "lock.enqueue", b, "k", `{"lease_ttl_s":600}`)
					body = `{"timeout_s":60}`
				}
				dead := d.waiterFor(t, "kvslots.lock."+how, addressed(t, "lock."+how, b, "k", body))
				d.waitForLine(t, store, "k", 1)
				next := d.waiterFor(t, "kvslots.lock.acquire", addressed(t, "lock.acquire", c, "k", `{"acquire_timeout_s":60}`))
				d.waitForLine(t, store, "k", 2)
				clients := srv.NumClients()
				dead.kill()
				gatewaytest.Eventually(t, "the server knows", func() bool { return srv.NumClients() < clients })
				ask(t, "lock.release", a, "k", `{"token":"`+held[1]+`"}`)
				m, err := next.answers.NextMsg(10 * time.Second)
				if err != nil {
					t.Fatal(err)
				}
				token := newToken.FindStringSubmatch(string(m.Data))
				if token == nil {
					t.Fatalf("the next was told %s", m.Data)
				}
				ask(t, "lock.release", c, "k", `{"token":"`+token[1]+`"}`)
				next.nc.Close()
				dead.nc.Close()
				d.free(t, store, "k")
			}
		})
	}
}

// Whoever is gone when an enqueue is granted at once does not keep the lock.
func TestSessionsEnqueuedByNobody(t *testing.T) {
	srv, store := openStore(t)
	d, _ := openSessions(t, srv, store, store)
	s := createSession(t, sessionsOverNATS(d))
	body := []byte(addressed(t, "lock.enqueue", s, "k", `{"lease_ttl_s":600}`))
	for _, op := range []string{"enqueue", "acquire", "wait"} {
		if err := d.nc.Publish("kvslots.lock."+op, body); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.nc.PublishRequest("kvslots.lock.enqueue", d.nc.NewInbox(), body); err != nil {
		t.Fatal(err)
	}
	// The session's next request is served after all of them.
	if got := sessionsOverNATS(d)(t, "lock.acquire", s, "other", `{"acquire_timeout_s":0}`); !strings.HasPrefix(got, "200") {
		t.Error(got)
	}
	d.free(t, store, "k")
}

func TestCancelOfSessions(t *testing.T) {
	srv, store := openStore(t)
	d, _ := openSessions(t, srv, store, store)
	ask := sessionsOverNATS(d)
	a, b := createSession(t, ask), createSession(t, ask)
	ask(t, "lock.acquire", a, "k", `{"acquire_timeout_s":0,"lease_ttl_s":600}`)
	for i, op := range []string{"acquire", "wait", "acquire"} {
		body := `{"acquire_timeout_s":60}`
		if op == "wait" {
			ask(t, "lock.enqueue", b, "k", "")
			body = `{"timeout_s":60}`
		}
		name := fmt.Sprint("name", i)
		told := make(chan string, 1)
		go func() {
			code, answer := d.ask(t, "lock."+op, addressed(t, "lock."+op, b, "k", body), wire.RequestHeader, name)
			told <- code + " " + answer
		}()
		if op == "acquire" {
			d.waitForLine(t, store, "k", 1)
		}
		cancel(t, d.nc, name)
		if got := <-told; got != `408 {"error":"client_canceled","detail":"the client went away"}` {
			t.Errorf("%s was told %s", op, got)
		}
		d.waitForLine(t, store, "k", 0)
	}

	// A grant that is out already is taken back.
	d.ask(t, "lock.acquire", addressed(t, "lock.acquire", b, "late", `{"acquire_timeout_s":0,"lease_ttl_s":600}`), wire.RequestHeader, "late")
	cancel(t, d.nc, "late")
	d.free(t, store, "late")
	if strings.Contains(d.logs.String(), "failed") {
		t.Errorf("logged:\n%s", d.logs)
	}
}

func TestSessionsWhileDraining(t *testing.T) {
	srv, store := openStore(t)
	d, _ := openSessions(t, srv, store, store)
	ask := sessionsOverNATS(d)
	s := createSession(t, ask)
	held := newToken.FindStringSubmatch(ask(t, "lock.acquire", s, "k", `{"acquire_timeout_s":0}`))
	d.lending.Stop()
	const draining = `503 {"error":"draining","detail":"the gateway is about to stop"}`
	for op, body := range map[string]string{"lock.acquire": `{"acquire_timeout_s":0}`, "lock.enqueue": "", "lock.wait": `{"timeout_s":0}`} {
		if got := ask(t, op, s, "k", body); got != draining {
			t.Errorf("%s: %s", op, got)
		}
	}
	if got := ask(t, "session.create", "", "", ""); got != draining {
		t.Errorf("create: %s", got)
	}
	for _, c := range []struct{ op, body, want string }{
		{"session.ping", "", "200 {}"},
		{"lock.renew", `{"token":"` + held[1] + `"}`, `200 {"remaining_s":33}`},
		{"lock.release", `{"token":"` + held[1] + `"}`, "200 {}"},
		{"session.delete", "", "200 {}"},
	} {
		if got := ask(t, c.op, s, "k", c.body); got != c.want {
			t.Errorf("%s: %s", c.op, got)
		}
	}
}
