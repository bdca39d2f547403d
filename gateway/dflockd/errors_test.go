package dflockd_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/kvslots"
)

const (
	someSession = "0123456789abcdef0123456789abcdef"
	someToken   = "00065f1c2e7a5b3d4c8ea1f06d2b9c4e"
)

// requests are one for each route.
var requests = []struct{ method, path, body string }{
	{"POST", "/v1/sessions", ""},
	{"DELETE", "/v1/sessions/" + someSession, ""},
	{"POST", "/v1/sessions/" + someSession + "/ping", ""},
	{"GET", "/v1/stats", ""},
	{"POST", "/v1/locks/k", `{"acquire_timeout_s":1}`},
	{"POST", "/v1/locks/k/release", `{"token":"` + someToken + `"}`},
	{"POST", "/v1/locks/k/renew", `{"token":"` + someToken + `"}`},
	{"POST", "/v1/locks/k/enqueue", ``},
	{"POST", "/v1/locks/k/wait", `{"timeout_s":1}`},
	{"POST", "/v1/semaphores/k", `{"acquire_timeout_s":1,"limit":3}`},
	{"POST", "/v1/semaphores/k/release", `{"token":"` + someToken + `"}`},
	{"POST", "/v1/semaphores/k/renew", `{"token":"` + someToken + `"}`},
	{"POST", "/v1/semaphores/k/enqueue", `{"limit":3}`},
	{"POST", "/v1/semaphores/k/wait", `{"timeout_s":1}`},
}

func TestStoreErrors(t *testing.T) {
	const detail = "nats: timeout at 10.0.0.7"
	for _, c := range []struct {
		name   string
		err    error
		status int
		code   string
		logged bool
	}{
		{"unavailable", kvslots.ErrUnavailable, 502, "unavailable", true},
		{"too late", context.DeadlineExceeded, 502, "unavailable", true},
		{"closed", kvslots.ErrClosed, 503, "draining", false},
		{"draining", gateway.ErrDraining, 503, "draining", false},
		{"unknown", errors.New("surprise"), 500, "internal_error", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := openFixture(t, gatewaytest.Failing{Err: fmt.Errorf("%s: %w", detail, c.err)})
			for _, r := range requests {
				if r.path == "/v1/stats" && c.status == 503 {
					continue // a draining gateway still answers statistics
				}
				d.want(t, someSession, r.method, r.path, r.body, c.status, refused(c.code))
				_, _, header := d.do(t, someSession, r.method, r.path, r.body)
				if got, want := header.Get("Retry-After"), map[bool]string{true: "1"}[c.status == 503]; got != want {
					t.Errorf("Retry-After %q, want %q", got, want)
				}
			}
			if got := strings.Count(d.Logs.String(), detail); (got > 0) != c.logged {
				t.Errorf("the detail was logged %d times:\n%s", got, d.Logs)
			}
		})
	}
}

// Each error of a lock is answered as the table has it.
func TestErrorsOfLocks(t *testing.T) {
	for _, c := range []struct {
		err    error
		op     string // what may fail so
		status int
		code   string
	}{
		{kvslots.ErrSessionGone, "/wait", 410, "session_gone"},
		{kvslots.ErrLimitMismatch, "/enqueue", 409, "limit_mismatch"},
		{kvslots.ErrAlreadyEnqueued, "/enqueue", 409, "already_enqueued"},
		{kvslots.ErrNotEnqueued, "/wait", 409, "not_enqueued"},
		{kvslots.ErrLeaseExpired, "/wait", 409, "lease_expired"},
		{kvslots.ErrNotHeld, "/release", 404, "not_held"},
		{kvslots.ErrNotHeld, "/renew", 404, "not_held"},
		{kvslots.ErrMaxLocks, "", 503, "max_locks"},
		{kvslots.ErrMaxWaiters, "", 503, "max_waiters"},
		{kvslots.ErrMaxLocksPerSession, "", 429, "max_locks_per_session"},
		{kvslots.ErrMaxLocksPerSession, "/enqueue", 429, "max_locks_per_session"},
		{kvslots.ErrMaxLocksPerOrigin, "", 429, "max_locks_per_ip"},
		{kvslots.ErrMaxLocksPerOrigin, "/enqueue", 429, "max_locks_per_ip"},
		{&kvslots.RangeError{Field: "ttl", Range: "at least 1 second"}, "", 400, "bad_request"},
	} {
		t.Run(c.code+c.op, func(t *testing.T) {
			d := openFixture(t, gatewaytest.Failing{Err: c.err})
			for _, r := range requests {
				if strings.HasSuffix(r.path, "/k"+c.op) {
					d.want(t, someSession, r.method, r.path, r.body, c.status, refused(c.code))
				}
			}
		})
	}
	for _, r := range []struct {
		err  error
		code string
	}{{kvslots.ErrMaxSessions, "max_sessions"}, {kvslots.ErrMaxSessionsPerOrigin, "max_sessions_per_ip"}} {
		d := openFixture(t, gatewaytest.Failing{Err: r.err})
		d.want(t, "", "POST", "/v1/sessions", "", 503, refused(r.code))
	}
}

// A wait without a grant is not an error.
func TestOutOfTime(t *testing.T) {
	d := openFixture(t, gatewaytest.Failing{Err: kvslots.ErrNoSlot})
	for _, path := range []string{"/v1/locks/k", "/v1/semaphores/k"} {
		body := `{"acquire_timeout_s":0,"limit":1}`
		if path == "/v1/locks/k" {
			body = `{"acquire_timeout_s":0}`
		}
		d.want(t, someSession, "POST", path, body, 200, timedOut)
		d.want(t, someSession, "POST", path+"/wait", `{"timeout_s":0}`, 200, timedOut)
	}
}

// Invalid requests are refused before the store is called.
func TestBadRequests(t *testing.T) {
	d := openFixture(t, gatewaytest.Failing{Err: errors.New("the store was asked")})
	long := `{"acquire_timeout_s":1}` + strings.Repeat(" ", 64<<10)
	upper := strings.ToUpper(someSession)
	for _, c := range []struct {
		name, session, method, path, body string
		code                              int
		answer                            string
	}{
		{"no session", "", "POST", "/v1/locks/k", `{"acquire_timeout_s":1}`, 400, `\{"error":"bad_request","detail":"header X-Dflockd-Session must be the id of a session"\}`},
		{"session of another form", "x", "POST", "/v1/locks/k", `{"acquire_timeout_s":1}`, 410, refused("session_gone")},
		{"session in upper case", upper, "POST", "/v1/locks/k/wait", `{"timeout_s":1}`, 410, refused("session_gone")},
		{"ping of another form", "", "POST", "/v1/sessions/" + upper + "/ping", "", 410, refused("session_gone")},
		{"end of another form", "", "DELETE", "/v1/sessions/x", "", 410, refused("session_gone")},
		{"key of blanks", someSession, "POST", "/v1/locks/a%20b", `{"acquire_timeout_s":1}`, 400, refused("bad_request")},
		{"key of nothing readable", someSession, "POST", "/v1/locks/%FF", `{"acquire_timeout_s":1}`, 400, refused("bad_request")},
		{"key with a control character", someSession, "POST", "/v1/locks/a%00", `{"acquire_timeout_s":1}`, 400, refused("bad_request")},
		{"long key", someSession, "POST", "/v1/locks/" + strings.Repeat("k", 257), `{"acquire_timeout_s":1}`, 400, refused("bad_request")},
		{"no body", someSession, "POST", "/v1/locks/k", ``, 400, `\{"error":"bad_request","detail":"body must be one JSON object"\}`},
		{"unknown field", someSession, "POST", "/v1/locks/k", `{"acquire_timeout_s":1,"x":1}`, 400, refused("bad_request")},
		{"session in the body", someSession, "POST", "/v1/locks/k", `{"acquire_timeout_s":1,"session":"x"}`, 400, refused("bad_request")},
		{"field of a session", "", "POST", "/v1/sessions", `{"idle_timeout":1}`, 400, refused("bad_request")},
		{"field of a ping", "", "POST", "/v1/sessions/" + someSession + "/ping", `{"x":1}`, 400, refused("bad_request")},
		{"trailing data", someSession, "POST", "/v1/locks/k", `{"acquire_timeout_s":1}{}`, 400, refused("bad_request")},
		{"long body", someSession, "POST", "/v1/locks/k", long, 413, `\{"error":"bad_request","detail":"body must be at most 64 KiB"\}`},
		{"no limit", someSession, "POST", "/v1/semaphores/k/enqueue", `{}`, 400, refused("bad_request")},
		{"token of another form", someSession, "POST", "/v1/locks/k/release", `{"token":"x"}`, 400, refused("bad_request")},
	} {
		t.Run(c.name, func(t *testing.T) {
			d.want(t, c.session, c.method, c.path, c.body, c.code, c.answer)
		})
	}
}

// No error quotes the session or the token of a request.
func TestErrorsKeepSecrets(t *testing.T) {
	d := openFixture(t, openStore(t, kvslots.Config{}))
	session := d.session(t)
	token := d.grant(t, session, "/v1/locks/k", `{"acquire_timeout_s":0}`).Token
	for _, r := range []struct{ method, path, body string }{
		{"POST", "/v1/locks/k/renew", `{"token":"` + token + `"}`},
		{"POST", "/v1/locks/k/renew", `{"token":"` + token + `","` + token + `":1}`},
		{"POST", "/v1/locks/k/release", `{"token":"` + token + `x"}`},
		{"POST", "/v1/locks/k/release", `{"` + token + `":1}`},
		{"POST", "/v1/locks/k/release", token},
		{"POST", "/v1/locks/other/release", `{"token":"` + token + `"}`},
		{session, "/v1/locks/k", ``},
		{"PATCH", "/v1/sessions/" + session, ``},
		{"POST", "/v1/sessions/" + session + "/" + session, ``},
		{"POST", "/v1/sessions/" + session + "/ping", ``},
		{"POST", "/v1/sessions/" + session + "/ping", `{"` + session + `":1}`},
		{"GET", "/v1/stats", ``},
		{"DELETE", "/v1/sessions/" + session, ``},
		{"DELETE", "/v1/sessions/" + session, ``},
	} {
		if _, body, _ := d.do(t, session, r.method, r.path, r.body); strings.Contains(body, session) || strings.Contains(body, token) {
			t.Errorf("%s %s: the answer quotes the request: %s", r.method, r.path, body)
		}
	}
}
