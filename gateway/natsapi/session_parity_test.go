package natsapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	someSession = "0123456789abcdef0123456789abcdef"
	someToken   = "00065f1c2e7a5b3d4c8ea1f06d2b9c4e"
)

// over sends one request through a transport: op is "session.create" or "lock.wait".
type over func(t *testing.T, op, session, key, body string) string

// sessionsOverNATS adds session and key to the body, if that is an object.
func sessionsOverNATS(d *fixture) over {
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
	kvslotstest.Must(t, err)
	return string(quoted)
}

// sessionsOverHTTP sends session and key where HTTP has them. It returns a 204 as the
// answer that NATS has instead.
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
		var header []string
		if session != "" && kind != "session" {
			header = []string{wire.SessionHeader, session}
		}
		answer := overWeb(t, web, method, path, body, header...)
		if answer == "204 " {
			return "200 {}"
		}
		return answer
	}
}

// overWeb sends a request, with names and values of headers in turn, and returns the status
// and the body.
func overWeb(t *testing.T, web *httptest.Server, method, path, body string, header ...string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, web.URL+path, strings.NewReader(body))
	kvslotstest.Must(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
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
	return fmt.Sprintf("%d %s", resp.StatusCode, answer)
}

// sessionCases are requests in their order. A and B are sessions, TOKEN stands
// for the latest token.
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
	{"ping without a session", "session.ping", "x", "", ``},
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

// Both transports answer the same, byte for byte, except for tokens.
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

// Both transports report an error of the store in the same way.
func TestParityOfSessionFailures(t *testing.T) {
	for _, err := range []error{
		kvslots.ErrSessionGone, kvslots.ErrLimitMismatch, kvslots.ErrAlreadyEnqueued, kvslots.ErrNotEnqueued, kvslots.ErrLeaseExpired,
		kvslots.ErrNotHeld, kvslots.ErrMaxLocks, kvslots.ErrMaxWaiters, kvslots.ErrMaxSessions, kvslots.ErrMaxSessionsPerOrigin,
		kvslots.ErrMaxLocksPerSession, kvslots.ErrMaxLocksPerOrigin,
		kvslots.ErrNoSlot, kvslots.ErrUnavailable, kvslots.ErrClosed, gateway.ErrDraining, context.DeadlineExceeded,
		&kvslots.RangeError{Field: "ttl", Range: "at least 1 second"}, errors.New("an inner reason"),
	} {
		t.Run(err.Error(), func(t *testing.T) {
			store := gatewaytest.Failing{Err: fmt.Errorf("an inner reason: %w", err)}
			d, web := openSessions(t, kvslotstest.Start(t, ""), store, store)
			overNATS, overHTTP := sessionsOverNATS(d), sessionsOverHTTP(web)
			for _, c := range []struct{ op, body string }{
				{"session.ping", ``}, {"session.delete", ``},
				{"lock.acquire", `{"acquire_timeout_s":0}`}, {"lock.enqueue", ``}, {"lock.wait", `{"timeout_s":0}`},
				{"semaphore.release", `{"token":"` + someToken + `"}`}, {"semaphore.renew", `{"token":"` + someToken + `"}`},
			} {
				got, want := overNATS(t, c.op, someSession, "k", c.body), overHTTP(t, c.op, someSession, "k", c.body)
				if got != want || strings.Contains(got, "an inner reason") {
					t.Errorf("%s over NATS %s, over HTTP %s", c.op, got, want)
				}
			}
			if got, want := overNATS(t, "session.create", "", "", ""), overHTTP(t, "session.create", "", "", ""); got != want {
				t.Errorf("create over NATS %s, over HTTP %s", got, want)
			}
		})
	}
}

// Clients of micro services read the error from the header.
func TestSessionErrorHeaders(t *testing.T) {
	srv, store := openStore(t)
	d, _ := openSessions(t, srv, store, store)
	m, err := d.nc.RequestWithContext(t.Context(), "kvslots.session.ping", []byte(`{"session":"x"}`))
	kvslotstest.Must(t, err)
	if m.Header.Get("Nats-Service-Error") != "session_gone" || m.Header.Get("Nats-Service-Error-Code") != "410" {
		t.Errorf("header %v", m.Header)
	}
}
