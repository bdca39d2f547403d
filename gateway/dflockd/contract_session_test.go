package dflockd_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/kvslots"
)

// pings keeps a session in use that was just created, with an idle timeout of a second in
// answers. It ends early if the machine pauses for so long that the session ends.
func (d *fixture) pings(t *testing.T, session string, length time.Duration) {
	t.Helper()
	began := time.Now()
	for seen := began; time.Since(began) < length; time.Sleep(200 * time.Millisecond) { // be idle, but not for long
		asked := time.Now()
		code, body, _ := d.do(t, "", "POST", "/v1/sessions/"+session+"/ping", "")
		if code != 204 && time.Since(seen) >= 2*time.Second {
			return
		}
		if code != 204 {
			t.Errorf("a ping is answered %d %s", code, body)
		}
		seen = asked
	}
}

// sessionContract is the part of sessions; see contract.
var sessionContract = []clause{
	{sentence: "POST /v1/sessions → 200", check: func(t *testing.T, d *fixture) {
		d.want(t, "", "POST", "/v1/sessions", "", 200, `\{"session_id":"[0-9a-f]{32}","idle_timeout_s":20\}`)
		d.want(t, "", "POST", "/v1/sessions", "{}", 200, `\{"session_id":"[0-9a-f]{32}","idle_timeout_s":20\}`)
	}},
	{sentence: "DELETE /v1/sessions/{id} → 204 (releases anything held)", check: func(t *testing.T, d *fixture) {
		a, b := d.session(t), d.session(t)
		d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		d.grant(t, a, "/v1/semaphores/s", `{"acquire_timeout_s":0,"limit":1}`)
		d.want(t, "", "DELETE", "/v1/sessions/"+a, "", 204, "")
		d.grant(t, b, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		d.grant(t, b, "/v1/semaphores/s", `{"acquire_timeout_s":0,"limit":1}`)
	}},
	{sentence: "POST /v1/sessions/{id}/ping → 204 (refreshes idle timer)", change: idle(time.Second), check: func(t *testing.T, d *fixture) {
		d.pings(t, d.session(t), 3*time.Second)
	}},
	{sentence: "Carry the session ID on every lock-modifying request via X-Dflockd-Session. A request without the header gets HTTP 400", check: func(t *testing.T, d *fixture) {
		for _, r := range requests {
			if strings.Contains(r.path, "/k") {
				d.want(t, "", r.method, r.path, r.body, 400, refused("bad_request"))
			}
		}
	}},
	{sentence: "an unknown or expired session gets HTTP 410 (session_gone)", change: idle(time.Second), check: func(t *testing.T, d *fixture) {
		expired := d.session(t)
		gatewaytest.Eventually(t, "the session expires", func() bool { return d.stats(t).Connections == 0 })
		for _, s := range []string{someSession, expired} {
			for _, r := range requests {
				if strings.Contains(r.path, "/k") {
					d.want(t, s, r.method, r.path, r.body, 410, refused("session_gone"))
				}
			}
			d.want(t, "", "POST", "/v1/sessions/"+s+"/ping", "", 410, refused("session_gone"))
			d.want(t, "", "DELETE", "/v1/sessions/"+s, "", 410, refused("session_gone"))
		}
	}},
	{sentence: "Explicit DELETE. Synchronous; held tokens are released before the response returns", check: func(t *testing.T, d *fixture) {
		for range 20 {
			a, b := d.session(t), d.session(t)
			d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
			d.want(t, "", "DELETE", "/v1/sessions/"+a, "", 204, "")
			d.grant(t, b, "/v1/locks/k", `{"acquire_timeout_s":0}`)
			d.want(t, "", "DELETE", "/v1/sessions/"+b, "", 204, "")
		}
	}},
	{sentence: "Idle timeout. Reaps any session whose lastSeen falls behind 2× the idle timeout", change: idle(time.Second), check: func(t *testing.T, d *fixture) {
		a, b := d.session(t), d.session(t)
		seen := time.Now()
		d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0,"lease_ttl_s":600}`)
		d.grant(t, b, "/v1/locks/k", `{"acquire_timeout_s":30}`)
		if took := time.Since(seen); took < 2*time.Second {
			t.Errorf("the next had the lock after %v", took)
		}
	}},
	{sentence: "In-flight handlers are immune for the duration of the request", change: idle(time.Second), check: func(t *testing.T, d *fixture) {
		a, b := d.session(t), d.session(t)
		held := d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0,"lease_ttl_s":4}`)
		answered := d.later(t, b, "POST", "/v1/locks/k", `{"acquire_timeout_s":30}`)
		d.pings(t, a, 3500*time.Millisecond)
		d.do(t, a, "POST", "/v1/locks/k/release", `{"token":"`+held.Token+`"}`)
		if got := <-answered; !strings.Contains(got, `"status":"ok"`) {
			t.Errorf("the waiter got %s", got)
		}
	}},
	{sentence: "Session DELETE 204, a second one 410 session_gone", check: func(t *testing.T, d *fixture) {
		s := d.session(t)
		d.want(t, "", "DELETE", "/v1/sessions/"+s, "", 204, "")
		d.want(t, "", "DELETE", "/v1/sessions/"+s, "", 410, refused("session_gone"))
	}},
	{sentence: "DELETE aborts that session's waiting requests, which get 410", check: func(t *testing.T, d *fixture) {
		a, b := d.session(t), d.session(t)
		d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		d.want(t, b, "POST", "/v1/locks/e/enqueue", "", 200, `.*acquired.*`)
		waits := d.later(t, b, "POST", "/v1/locks/k", `{"acquire_timeout_s":30}`)
		d.waiters(t, "k", 1)
		behind := d.later(t, b, "POST", "/v1/locks/k", `{"acquire_timeout_s":0}`)
		d.want(t, "", "DELETE", "/v1/sessions/"+b, "", 204, "")
		for _, answered := range []<-chan string{waits, behind} {
			if got := <-answered; !strings.Contains(got, "session_gone") {
				t.Errorf("a request of the session got %s", got)
			}
		}
		d.waiters(t, "k", 0)
	}},
	{sentence: "Two requests of one session for one key are served one after the other; nothing else waits for them", check: func(t *testing.T, d *fixture) {
		a, b := d.session(t), d.session(t)
		g := d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		own := d.grant(t, b, "/v1/locks/own", `{"acquire_timeout_s":0}`)
		first := d.later(t, b, "POST", "/v1/locks/k", `{"acquire_timeout_s":30}`)
		d.waiters(t, "k", 1)
		second := d.later(t, b, "POST", "/v1/locks/k/enqueue", "")
		d.want(t, "", "POST", "/v1/sessions/"+b+"/ping", "", 204, "")
		d.want(t, b, "POST", "/v1/locks/own/renew", `{"token":"`+own.Token+`"}`, 200, `.*`)
		d.want(t, b, "POST", "/v1/locks/k/release", `{"token":"`+own.Token+`"}`, 404, `.*`)
		d.want(t, b, "POST", "/v1/locks/own/release", `{"token":"`+own.Token+`"}`, 204, "")
		d.want(t, b, "POST", "/v1/locks/free", `{"acquire_timeout_s":0}`, 200, `.*"ok".*`)
		d.want(t, b, "POST", "/v1/locks/queued/enqueue", "", 200, `.*acquired.*`)
		if d.waiters(t, "k", 1); len(second) != 0 {
			t.Error("the second overtook the first")
		}
		d.want(t, a, "POST", "/v1/locks/k/release", `{"token":"`+g.Token+`"}`, 204, "")
		if got := <-first; !strings.Contains(got, `"status":"ok"`) {
			t.Errorf("got %s", got)
		}
		if got := <-second; !strings.Contains(got, `"status":"queued"`) {
			t.Errorf("got %s", got)
		}
		d.want(t, "", "DELETE", "/v1/sessions/"+b, "", 204, "")
	}},
	{sentence: "503 max_sessions: cluster-wide HTTP session cap reached", store: kvslots.Config{MaxSessions: 2}, check: func(t *testing.T, d *fixture) {
		d.session(t)
		s := d.session(t)
		d.want(t, "", "POST", "/v1/sessions", "", 503, refused("max_sessions"))
		d.want(t, "", "DELETE", "/v1/sessions/"+s, "", 204, "")
		d.session(t)
	}},
	{sentence: "503 max_sessions_per_ip: per-IP session cap reached", store: kvslots.Config{MaxSessionsPerOrigin: 1}, check: func(t *testing.T, d *fixture) {
		d.session(t)
		d.want(t, "", "POST", "/v1/sessions", "", 503, refused("max_sessions_per_ip"))
	}},
}
