package dflockd_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// contract has a row for each sentence of dflockd's documentation that says
// something of its HTTP API, and for each row of its table of errors; then what
// gateway/README.md, "The dflockd API: /v1", says beyond that. Each has a gateway and a store of its own.
//
// One differs: "Server shutdown. All sessions are closed and their state cleaned
// up." Ours outlive it, see TestSessionsOutliveARestart. That HTTP and other
// clients stand in one line is shown in gateway/natsapi.
var contract = []struct {
	sentence string
	change   func(o *options)
	store    kvslots.Config
	check    func(t *testing.T, d *door)
}{
	{sentence: "POST /v1/sessions → 200", check: func(t *testing.T, d *door) {
		d.want(t, "", "POST", "/v1/sessions", "", 200, `\{"session_id":"[0-9a-f]{32}","idle_timeout_s":20\}`)
		d.want(t, "", "POST", "/v1/sessions", "{}", 200, `\{"session_id":"[0-9a-f]{32}","idle_timeout_s":20\}`)
	}},
	{sentence: "DELETE /v1/sessions/{id} → 204 (releases anything held)", check: func(t *testing.T, d *door) {
		a, b := d.session(t), d.session(t)
		d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		d.grant(t, a, "/v1/semaphores/s", `{"acquire_timeout_s":0,"limit":1}`)
		d.want(t, "", "DELETE", "/v1/sessions/"+a, "", 204, "")
		d.grant(t, b, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		d.grant(t, b, "/v1/semaphores/s", `{"acquire_timeout_s":0,"limit":1}`)
	}},
	{sentence: "POST /v1/sessions/{id}/ping → 204 (refreshes idle timer)", change: idle(time.Second), check: func(t *testing.T, d *door) {
		s := d.session(t)
		for until := time.Now().Add(3 * time.Second); time.Now().Before(until); {
			d.want(t, "", "POST", "/v1/sessions/"+s+"/ping", "", 204, "")
			time.Sleep(200 * time.Millisecond) // be idle, but not for long
		}
		d.grant(t, s, "/v1/locks/k", `{"acquire_timeout_s":0}`)
	}},
	{sentence: "Carry the session ID on every lock-modifying request via X-Dflockd-Session. A request without the header gets HTTP 400", check: func(t *testing.T, d *door) {
		for _, r := range requests {
			if strings.Contains(r.path, "/k") {
				d.want(t, "", r.method, r.path, r.body, 400, refused("bad_request"))
			}
		}
	}},
	{sentence: "an unknown or expired session gets HTTP 410 (session_gone)", change: idle(time.Second), check: func(t *testing.T, d *door) {
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
	{sentence: "Explicit DELETE. Synchronous; held tokens are released before the response returns", check: func(t *testing.T, d *door) {
		for range 20 {
			a, b := d.session(t), d.session(t)
			d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
			d.want(t, "", "DELETE", "/v1/sessions/"+a, "", 204, "")
			d.grant(t, b, "/v1/locks/k", `{"acquire_timeout_s":0}`)
			d.want(t, "", "DELETE", "/v1/sessions/"+b, "", 204, "")
		}
	}},
	{sentence: "Idle timeout. Reaps any session whose lastSeen falls behind 2× the idle timeout", change: idle(time.Second), check: func(t *testing.T, d *door) {
		a, b := d.session(t), d.session(t)
		d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0,"lease_ttl_s":600}`)
		seen := time.Now()
		d.grant(t, b, "/v1/locks/k", `{"acquire_timeout_s":30}`)
		if took := time.Since(seen); took < 1900*time.Millisecond || took > 4*time.Second {
			t.Errorf("the next had the lock after %v", took)
		}
	}},
	{sentence: "In-flight handlers are immune for the duration of the request", change: idle(time.Second), check: func(t *testing.T, d *door) {
		a, b := d.session(t), d.session(t)
		held := d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0,"lease_ttl_s":4}`)
		told := d.later(t, b, "POST", "/v1/locks/k", `{"acquire_timeout_s":30}`)
		for until := time.Now().Add(3500 * time.Millisecond); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
			d.want(t, "", "POST", "/v1/sessions/"+a+"/ping", "", 204, "")
		}
		d.do(t, a, "POST", "/v1/locks/k/release", `{"token":"`+held.Token+`"}`)
		if got := <-told; !strings.Contains(got, `"status":"ok"`) {
			t.Errorf("the waiter was told %s", got)
		}
	}},
	{sentence: "GET /v1/stats returns a snapshot of the lock-manager state", check: func(t *testing.T, d *door) {
		a, b := d.session(t), d.session(t)
		d.grant(t, a, "/v1/locks/deploy", `{"acquire_timeout_s":0,"lease_ttl_s":30}`)
		d.grant(t, a, "/v1/semaphores/rate-limit", `{"acquire_timeout_s":0,"limit":5}`)
		old := d.grant(t, a, "/v1/locks/idle", `{"acquire_timeout_s":0}`)
		d.want(t, a, "POST", "/v1/locks/idle/release", `{"token":"`+old.Token+`"}`, 204, "")
		old = d.grant(t, a, "/v1/semaphores/idle-too", `{"acquire_timeout_s":0,"limit":2}`)
		d.want(t, a, "POST", "/v1/semaphores/idle-too/release", `{"token":"`+old.Token+`"}`, 204, "")
		d.want(t, b, "POST", "/v1/locks/deploy/enqueue", "", 200, queued)
		const n, s = `[1-9]\d*`, `\d+(\.\d{1,3})?`
		d.want(t, "", "GET", "/v1/stats", "", 200, `\{"connections":2,`+
			`"locks":\[\{"key":"deploy","owner_conn_id":`+n+`,"lease_expires_in_s":(29|30)(\.\d+)?,"waiters":1,"fence":`+n+`,"age_s":`+s+`,"queue":\[\{"position":1,"waited_s":`+s+`,"owner_conn_id":`+n+`\}\]\}\],`+
			`"semaphores":\[\{"key":"rate-limit","limit":5,"holders":1,"waiters":0,"held":\[\{"position":0,"owner_conn_id":`+n+`,"fence":`+n+`,"age_s":`+s+`,"lease_expires_in_s":(32|33)(\.\d+)?\}\],"queue":\[\]\}\],`+
			`"idle_locks":\[\{"key":"idle","idle_s":`+s+`\}\],"idle_semaphores":\[\{"key":"idle-too","idle_s":`+s+`\}\],"pools":\[\]\}`)
	}},
	{sentence: "connections is the sum of TCP connections plus active HTTP sessions", change: func(o *options) { o.dialect.Clients = func() int { return 40 } }, check: func(t *testing.T, d *door) {
		d.session(t)
		s := d.session(t)
		if n := d.stats(t).Connections; n != 42 {
			t.Errorf("%d connections, want 42", n)
		}
		d.want(t, "", "DELETE", "/v1/sessions/"+s, "", 204, "")
		if n := d.stats(t).Connections; n != 41 {
			t.Errorf("%d connections, want 41", n)
		}
	}},
	{sentence: "POST /v1/locks/{key} response: status ok|timeout, token, lease_ttl_s", check: func(t *testing.T, d *door) {
		a, b := d.session(t), d.session(t)
		d.want(t, a, "POST", "/v1/locks/k", `{"acquire_timeout_s":0,"lease_ttl_s":30}`, 200, `\{"status":"ok","token":"[0-9a-f]{32}","lease_ttl_s":30\}`)
		d.want(t, b, "POST", "/v1/locks/k", `{"acquire_timeout_s":1}`, 200, timedOut)
	}},
	{sentence: "POST /v1/locks/{key}/release response: 204 No Content", check: func(t *testing.T, d *door) {
		s := d.session(t)
		g := d.grant(t, s, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		d.want(t, s, "POST", "/v1/locks/k/release", `{"token":"`+g.Token+`"}`, 204, "")
		d.want(t, s, "POST", "/v1/locks/k/release", `{"token":"`+g.Token+`"}`, 404, refused("not_held"))
	}},
	{sentence: "POST /v1/locks/{key}/renew response: remaining_s", check: func(t *testing.T, d *door) {
		s := d.session(t)
		g := d.grant(t, s, "/v1/locks/k", `{"acquire_timeout_s":0,"lease_ttl_s":5}`)
		d.want(t, s, "POST", "/v1/locks/k/renew", `{"token":"`+g.Token+`","lease_ttl_s":60}`, 200, `\{"remaining_s":60\}`)
		d.want(t, s, "POST", "/v1/locks/k/renew", `{"token":"`+g.Token+`"}`, 200, `\{"remaining_s":33\}`)
	}},
	{sentence: "POST /v1/locks/{key} blocks up to acquire_timeout_s server-side. 0 is non-blocking (try-lock)", check: func(t *testing.T, d *door) {
		a, b := d.session(t), d.session(t)
		g := d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		asked := time.Now()
		d.want(t, b, "POST", "/v1/locks/k", `{"acquire_timeout_s":0}`, 200, timedOut)
		if took := time.Since(asked); took > 900*time.Millisecond {
			t.Errorf("a try took %v", took)
		}
		asked = time.Now()
		d.want(t, b, "POST", "/v1/locks/k", `{"acquire_timeout_s":1}`, 200, timedOut)
		if took := time.Since(asked); took < time.Second || took > 3*time.Second {
			t.Errorf("a wait of 1 s took %v", took)
		}
		told := d.later(t, b, "POST", "/v1/locks/k", `{"acquire_timeout_s":30}`)
		d.waiters(t, "k", 1)
		d.want(t, a, "POST", "/v1/locks/k/release", `{"token":"`+g.Token+`"}`, 204, "")
		if got := <-told; !strings.Contains(got, `"status":"ok"`) {
			t.Errorf("the waiter was told %s", got)
		}
	}},
	{sentence: `enqueue is non-blocking and returns either "acquired" (you got the slot immediately) or "queued" (call wait next)`, check: func(t *testing.T, d *door) {
		a, b := d.session(t), d.session(t)
		code, body, _ := d.do(t, a, "POST", "/v1/locks/k/enqueue", `{"lease_ttl_s":30}`)
		if code != 200 || !strings.HasPrefix(body, `{"status":"acquired","token":"`) || !strings.HasSuffix(body, `","lease_ttl_s":30}`) {
			t.Fatalf("got %d %s", code, body)
		}
		token := strings.Split(body, `"`)[7]
		d.want(t, b, "POST", "/v1/locks/k/enqueue", `{"lease_ttl_s":20}`, 200, queued)
		told := d.later(t, b, "POST", "/v1/locks/k/wait", `{"timeout_s":30}`)
		d.want(t, a, "POST", "/v1/locks/k/release", `{"token":"`+token+`"}`, 204, "")
		if got := <-told; !strings.Contains(got, `"status":"ok"`) || !strings.Contains(got, `"lease_ttl_s":20`) {
			t.Errorf("the waiter was told %s", got)
		}
	}},
	{sentence: "The session connID is what binds enqueue and wait: they don't share a token", check: func(t *testing.T, d *door) {
		a, b, c := d.session(t), d.session(t), d.session(t)
		d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		d.want(t, b, "POST", "/v1/locks/k/enqueue", "", 200, queued)
		d.want(t, c, "POST", "/v1/locks/k/wait", `{"timeout_s":0}`, 409, refused("not_enqueued"))
		d.want(t, b, "POST", "/v1/locks/k/wait", `{"timeout_s":0}`, 200, timedOut)
	}},
	{sentence: "lease_ttl_s defaults to --default-lease-ttl when omitted", change: func(o *options) { o.dialect.DefaultLeaseTTL = 17 * time.Second }, check: func(t *testing.T, d *door) {
		s := d.session(t)
		for i, body := range []string{`{"acquire_timeout_s":0}`, `{"acquire_timeout_s":0,"lease_ttl_s":0}`} {
			if g := d.grant(t, s, fmt.Sprint("/v1/locks/k", i), body); g.LeaseTTL != 17 {
				t.Errorf("%s: a lease of %d s", body, g.LeaseTTL)
			}
		}
		g := d.grant(t, s, "/v1/locks/e/enqueue", "")
		d.want(t, s, "POST", "/v1/locks/e/renew", `{"token":"`+g.Token+`"}`, 200, `\{"remaining_s":17\}`)
	}},
	{sentence: "Semaphores: same shape, with a required limit", check: func(t *testing.T, d *door) {
		a, b, c := d.session(t), d.session(t), d.session(t)
		d.want(t, a, "POST", "/v1/semaphores/s", `{"acquire_timeout_s":0}`, 400, refused("bad_request"))
		d.want(t, a, "POST", "/v1/semaphores/s/enqueue", ``, 400, refused("bad_request"))
		first := d.grant(t, a, "/v1/semaphores/s", `{"acquire_timeout_s":0,"limit":2}`)
		if g := d.grant(t, b, "/v1/semaphores/s/enqueue", `{"limit":2}`); g.Status != "acquired" {
			t.Errorf("got %+v", g)
		}
		d.want(t, c, "POST", "/v1/semaphores/s", `{"acquire_timeout_s":0,"limit":2}`, 200, timedOut)
		d.want(t, c, "POST", "/v1/semaphores/s/enqueue", `{"limit":2}`, 200, queued)
		d.want(t, a, "POST", "/v1/semaphores/s/renew", `{"token":"`+first.Token+`","lease_ttl_s":60}`, 200, `\{"remaining_s":60\}`)
		told := d.later(t, c, "POST", "/v1/semaphores/s/wait", `{"timeout_s":30}`)
		d.want(t, a, "POST", "/v1/semaphores/s/release", `{"token":"`+first.Token+`"}`, 204, "")
		if got := <-told; !strings.Contains(got, `"status":"ok"`) {
			t.Errorf("the waiter was told %s", got)
		}
	}},
	{sentence: "The same key cannot be used as both a lock and a semaphore", check: func(t *testing.T, d *door) {
		a, b := d.session(t), d.session(t)
		d.grant(t, a, "/v1/locks/l", `{"acquire_timeout_s":0}`)
		d.grant(t, a, "/v1/semaphores/s", `{"acquire_timeout_s":0,"limit":1}`)
		d.want(t, b, "POST", "/v1/semaphores/l", `{"acquire_timeout_s":0,"limit":1}`, 409, refused("limit_mismatch"))
		d.want(t, b, "POST", "/v1/semaphores/l/enqueue", `{"limit":1}`, 409, refused("limit_mismatch"))
		d.want(t, b, "POST", "/v1/locks/s", `{"acquire_timeout_s":0}`, 409, refused("limit_mismatch"))
		d.want(t, b, "POST", "/v1/locks/s/enqueue", ``, 409, refused("limit_mismatch"))
	}},
	{sentence: "Mismatching limit for an existing key returns 409 limit_mismatch", check: func(t *testing.T, d *door) {
		a, b := d.session(t), d.session(t)
		g := d.grant(t, a, "/v1/semaphores/s", `{"acquire_timeout_s":0,"limit":3}`)
		d.want(t, b, "POST", "/v1/semaphores/s", `{"acquire_timeout_s":0,"limit":4}`, 409, refused("limit_mismatch"))
		d.want(t, b, "POST", "/v1/semaphores/s/enqueue", `{"limit":2}`, 409, refused("limit_mismatch"))
		d.want(t, a, "POST", "/v1/semaphores/s/release", `{"token":"`+g.Token+`"}`, 204, "")
		d.grant(t, b, "/v1/semaphores/s", `{"acquire_timeout_s":0,"limit":4}`) // nobody holds it to the old one
	}},
	{sentence: "When --auth-token is set, every request must carry it; unauthorised requests get 401 unauthorized", change: func(o *options) { o.gateway.AuthToken = "hunter2" }, check: func(t *testing.T, d *door) {
		for _, r := range requests {
			d.want(t, someSession, r.method, r.path, r.body, 401, refused("unauthorized"))
		}
		if code, body, _ := d.do(t, "", "POST", "/v1/sessions", "", "Authorization", "Bearer hunter2"); code != 200 {
			t.Errorf("with the token: %d %s", code, body)
		}
	}},
	{sentence: "400 bad_request: malformed input, missing required field, invalid key/token", check: func(t *testing.T, d *door) {
		s := d.session(t)
		d.want(t, s, "POST", "/v1/locks/k", `{`, 400, refused("bad_request"))
		d.want(t, s, "POST", "/v1/locks/k", `{}`, 400, refused("bad_request"))
		d.want(t, s, "POST", "/v1/locks/a%20b", `{"acquire_timeout_s":0}`, 400, refused("bad_request"))
		d.want(t, s, "POST", "/v1/locks/k/release", `{"token":"x"}`, 400, refused("bad_request"))
	}},
	{sentence: "404 not_found: path doesn't match a route", check: func(t *testing.T, d *door) {
		d.want(t, "", "GET", "/v1/x", "", 404, refused("not_found"))
		d.want(t, "", "POST", "/v1/locks/k/steal", "{}", 404, refused("not_found"))
	}},
	{sentence: "404 not_held: release/renew on a token the server doesn't have", check: func(t *testing.T, d *door) {
		s := d.session(t)
		d.want(t, s, "POST", "/v1/locks/k/release", `{"token":"`+someToken+`"}`, 404, refused("not_held"))
		d.want(t, s, "POST", "/v1/locks/k/renew", `{"token":"`+someToken+`"}`, 404, refused("not_held"))
		g := d.grant(t, s, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		d.want(t, s, "POST", "/v1/locks/other/release", `{"token":"`+g.Token+`"}`, 404, refused("not_held"))
		d.want(t, s, "POST", "/v1/semaphores/s/renew", `{"token":"`+g.Token+`"}`, 404, refused("not_held"))
		wrong := "0"
		if g.Token[31:] == wrong {
			wrong = "1"
		}
		d.want(t, s, "POST", "/v1/locks/k/release", `{"token":"`+g.Token[:31]+wrong+`"}`, 404, refused("not_held"))
	}},
	{sentence: "405 method_not_allowed: path matches a different method", check: func(t *testing.T, d *door) {
		for path, allow := range map[string]string{
			"/v1/sessions": "POST", "/v1/sessions/" + someSession: "DELETE", "/v1/stats": "GET, HEAD", "/v1/locks/k": "POST", "/v1/semaphores/k/wait": "POST",
		} {
			code, body, header := d.do(t, "", "PATCH", path, "")
			if code != 405 || !strings.HasPrefix(body, `{"error":"method_not_allowed"`) || header.Get("Allow") != allow {
				t.Errorf("%s: %d %s, Allow %q", path, code, body, header.Get("Allow"))
			}
		}
	}},
	{sentence: "408 client_canceled: client disconnected while a long-poll was in flight", check: func(t *testing.T, d *door) {
		a, b := d.session(t), d.session(t)
		d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		now := d.hangUp(t, b, "/v1/locks/k", `{"acquire_timeout_s":30}`)
		d.waiters(t, "k", 1)
		now()
		d.waiters(t, "k", 0)
		gatewaytest.Eventually(t, "the log says 408", func() bool { return strings.Contains(d.Logs.String(), `"status":408`) })
	}},
	{sentence: "409 already_enqueued: caller already has an enqueued state for this key", check: func(t *testing.T, d *door) {
		a, b := d.session(t), d.session(t)
		d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		d.want(t, b, "POST", "/v1/locks/k/enqueue", "", 200, queued)
		d.want(t, b, "POST", "/v1/locks/k/enqueue", "", 409, refused("already_enqueued"))
		d.want(t, b, "POST", "/v1/locks/other/enqueue", "", 200, `.*"acquired".*`)
	}},
	{sentence: "409 not_enqueued: wait without a matching enqueue", check: func(t *testing.T, d *door) {
		d.want(t, d.session(t), "POST", "/v1/locks/k/wait", `{"timeout_s":0}`, 409, refused("not_enqueued"))
		d.want(t, d.session(t), "POST", "/v1/semaphores/k/wait", `{"timeout_s":0}`, 409, refused("not_enqueued"))
	}},
	{sentence: "409 lease_expired: promoted holder's lease expired before observation", check: func(t *testing.T, d *door) {
		a, b := d.session(t), d.session(t)
		g := d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		d.want(t, b, "POST", "/v1/locks/k/enqueue", `{"lease_ttl_s":1}`, 200, queued)
		d.want(t, a, "POST", "/v1/locks/k/release", `{"token":"`+g.Token+`"}`, 204, "")
		promoted := false
		gatewaytest.Eventually(t, "promoted, and over", func() bool {
			locks := d.stats(t).Locks
			promoted = promoted || len(locks) == 1 && locks[0].Owner != 0
			return promoted && len(locks) == 0
		})
		d.want(t, b, "POST", "/v1/locks/k/wait", `{"timeout_s":5}`, 409, refused("lease_expired"))
		d.want(t, b, "POST", "/v1/locks/k/wait", `{"timeout_s":5}`, 409, refused("not_enqueued"))
	}},
	{sentence: "429 rate_limited: per-IP request rate exceeded", change: func(o *options) { o.gateway.RateLimit, o.gateway.RateBurst = 0.001, 1 }, check: func(t *testing.T, d *door) {
		d.session(t)
		d.want(t, "", "POST", "/v1/sessions", "", 429, refused("rate_limited"))
	}},
	{sentence: "503 max_locks: server-wide unique-key cap reached", store: kvslots.Config{MaxLocks: 2}, check: func(t *testing.T, d *door) {
		s := d.session(t)
		d.grant(t, s, "/v1/locks/a", `{"acquire_timeout_s":0}`)
		g := d.grant(t, s, "/v1/semaphores/b", `{"acquire_timeout_s":0,"limit":2}`)
		d.want(t, s, "POST", "/v1/locks/c", `{"acquire_timeout_s":0}`, 503, refused("max_locks"))
		d.want(t, s, "POST", "/v1/locks/c/enqueue", ``, 503, refused("max_locks"))
		d.grant(t, s, "/v1/semaphores/b", `{"acquire_timeout_s":0,"limit":2}`) // no new key
		d.want(t, s, "POST", "/v1/semaphores/b/release", `{"token":"`+g.Token+`"}`, 204, "")
	}},
	{sentence: "503 max_waiters: per-key waiter cap reached", store: kvslots.Config{MaxWaiters: 1}, check: func(t *testing.T, d *door) {
		a, b, c := d.session(t), d.session(t), d.session(t)
		d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		d.want(t, b, "POST", "/v1/locks/k/enqueue", ``, 200, queued)
		d.want(t, c, "POST", "/v1/locks/k", `{"acquire_timeout_s":5}`, 503, refused("max_waiters"))
		d.want(t, c, "POST", "/v1/locks/k/enqueue", ``, 503, refused("max_waiters"))
	}},
	{sentence: "503 max_sessions: cluster-wide HTTP session cap reached", store: kvslots.Config{MaxSessions: 2}, check: func(t *testing.T, d *door) {
		d.session(t)
		s := d.session(t)
		d.want(t, "", "POST", "/v1/sessions", "", 503, refused("max_sessions"))
		d.want(t, "", "DELETE", "/v1/sessions/"+s, "", 204, "")
		d.session(t)
	}},
	{sentence: "503 max_sessions_per_ip: per-IP session cap reached", store: kvslots.Config{MaxSessionsPerOrigin: 1}, check: func(t *testing.T, d *door) {
		d.session(t)
		d.want(t, "", "POST", "/v1/sessions", "", 503, refused("max_sessions_per_ip"))
	}},
	{sentence: "503 draining: server is in graceful shutdown", check: func(t *testing.T, d *door) {
		a, b, c := d.session(t), d.session(t), d.session(t)
		g := d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		d.want(t, b, "POST", "/v1/locks/k/enqueue", ``, 200, queued)
		waits := d.later(t, b, "POST", "/v1/locks/k/wait", `{"timeout_s":30}`)
		acquires := d.later(t, c, "POST", "/v1/locks/k", `{"acquire_timeout_s":30}`)
		d.waiters(t, "k", 2)
		d.Lending.Stop()
		for _, told := range []<-chan string{waits, acquires} {
			if got := <-told; !strings.Contains(got, `"draining"`) {
				t.Errorf("a waiter was told %s", got)
			}
		}
		for _, r := range []struct{ path, body string }{
			{"/v1/sessions", ""}, {"/v1/locks/x", `{"acquire_timeout_s":0}`}, {"/v1/locks/x/enqueue", ""}, {"/v1/locks/k/wait", `{"timeout_s":0}`},
		} {
			code, body, header := d.do(t, b, "POST", r.path, r.body)
			if code != 503 || !strings.HasPrefix(body, `{"error":"draining"`) || header.Get("Retry-After") == "" {
				t.Errorf("%s: %d %s", r.path, code, body)
			}
		}
		d.want(t, "", "POST", "/v1/sessions/"+a+"/ping", "", 204, "")
		d.want(t, a, "POST", "/v1/locks/k/renew", `{"token":"`+g.Token+`"}`, 200, `\{"remaining_s":33\}`)
		if locks := d.stats(t).Locks; len(locks) != 1 || locks[0].Waiters != 1 {
			t.Errorf("who had enqueued lost the place, or who had not has one: %+v", locks)
		}
		d.want(t, a, "POST", "/v1/locks/k/release", `{"token":"`+g.Token+`"}`, 204, "")
		d.want(t, "", "DELETE", "/v1/sessions/"+a, "", 204, "")
		d.want(t, "", "GET", "/ready", "", 503, `\{"status":"draining"\}`)
		d.want(t, "", "GET", "/health", "", 200, `\{"status":"ok"\}`)
	}},
	{sentence: "A /wait that times out releases any just-granted slot back to the queue", check: func(t *testing.T, d *door) {
		a, b, c := d.session(t), d.session(t), d.session(t)
		g := d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		d.want(t, b, "POST", "/v1/locks/k/enqueue", ``, 200, queued)
		d.want(t, b, "POST", "/v1/locks/k/wait", `{"timeout_s":1}`, 200, timedOut)
		d.want(t, a, "POST", "/v1/locks/k/release", `{"token":"`+g.Token+`"}`, 204, "")
		d.grant(t, c, "/v1/locks/k", `{"acquire_timeout_s":0}`)
	}},
	{sentence: "A /wait whose client disconnects releases any just-granted slot back to the queue", check: func(t *testing.T, d *door) {
		a, b, c := d.session(t), d.session(t), d.session(t)
		for range 50 {
			g := d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0,"lease_ttl_s":600}`)
			d.want(t, b, "POST", "/v1/locks/k/enqueue", `{"lease_ttl_s":600}`, 200, queued)
			now := d.hangUp(t, b, "/v1/locks/k/wait", `{"timeout_s":30}`)
			told := d.later(t, c, "POST", "/v1/locks/k", `{"acquire_timeout_s":30}`)
			d.waiters(t, "k", 2)
			now()
			d.want(t, a, "POST", "/v1/locks/k/release", `{"token":"`+g.Token+`"}`, 204, "")
			got := <-told
			if !strings.Contains(got, `"status":"ok"`) {
				t.Fatalf("the next in line was told %s", got)
			}
			d.want(t, c, "POST", "/v1/locks/k/release", `{"token":"`+strings.Split(got, `"`)[7]+`"}`, 204, "")
			d.free(t, "k")
		}
	}},
	{sentence: "CORS: disabled by default", check: func(t *testing.T, d *door) {
		code, _, header := d.do(t, "", "OPTIONS", "/v1/stats", "", "Origin", "https://example.com", "Access-Control-Request-Method", "GET")
		if code != 405 || header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%d, %v", code, header)
		}
	}},
	{sentence: "CORS: preflight OPTIONS requests with Access-Control-Request-Method are short-circuited with 204", change: func(o *options) { o.gateway.CORSOrigins = []string{"https://example.com"} }, check: func(t *testing.T, d *door) {
		code, _, header := d.do(t, "", "OPTIONS", "/v1/locks/k", "", "Origin", "https://example.com",
			"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", strings.ToLower(wire.SessionHeader))
		if code != 204 || header.Get("Access-Control-Allow-Origin") != "https://example.com" || header.Get("Access-Control-Allow-Headers") == "" {
			t.Errorf("%d, %v", code, header)
		}
	}},

	// Our issue.
	{sentence: "A token's first 16 digits are its fence", check: func(t *testing.T, d *door) {
		s := d.session(t)
		g := d.grant(t, s, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		fence, err := strconv.ParseUint(g.Token[:16], 16, 64)
		if locks := d.stats(t).Locks; err != nil || len(locks) != 1 || locks[0].Fence != fence {
			t.Errorf("token %s, locks %+v", g.Token, locks)
		}
	}},
	{sentence: "Keys: 1–256 bytes, no whitespace, percent-decoded from the path", check: func(t *testing.T, d *door) {
		a, b := d.session(t), d.session(t)
		for path, key := range map[string]string{
			"a%2Fb": "a/b", "100%25": "100%", "%2541": "%41", "%C3%A4": "ä", "a+b": "a+b", "x%3Fy%23": "x?y#", "%2E%2E": "..",
			strings.Repeat("k", 256): strings.Repeat("k", 256), "a%2Frelease": "a/release", "enqueue": "enqueue", "%6B": "k", "a%2Fb%2541": "a/b%41",
		} {
			g := d.grant(t, a, "/v1/locks/"+path, `{"acquire_timeout_s":0}`)
			if locks := d.stats(t).Locks; len(locks) != 1 || locks[0].Key != key {
				t.Errorf("%s: %+v", path, locks)
			}
			d.want(t, b, "POST", "/v1/locks/"+path, `{"acquire_timeout_s":0}`, 200, timedOut)
			d.want(t, a, "POST", "/v1/locks/"+path+"/release", `{"token":"`+g.Token+`"}`, 204, "")
		}
	}},
	{sentence: "Session DELETE 204, a second one 410 session_gone", check: func(t *testing.T, d *door) {
		s := d.session(t)
		d.want(t, "", "DELETE", "/v1/sessions/"+s, "", 204, "")
		d.want(t, "", "DELETE", "/v1/sessions/"+s, "", 410, refused("session_gone"))
	}},
	{sentence: "DELETE aborts that session's waiting requests, which get 410", check: func(t *testing.T, d *door) {
		a, b := d.session(t), d.session(t)
		d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		d.want(t, b, "POST", "/v1/locks/e/enqueue", "", 200, `.*acquired.*`)
		waits := d.later(t, b, "POST", "/v1/locks/k", `{"acquire_timeout_s":30}`)
		d.waiters(t, "k", 1)
		behind := d.later(t, b, "POST", "/v1/locks/x", `{"acquire_timeout_s":0}`)
		d.want(t, "", "DELETE", "/v1/sessions/"+b, "", 204, "")
		for _, told := range []<-chan string{waits, behind} {
			if got := <-told; !strings.Contains(got, "session_gone") {
				t.Errorf("a request of the session was told %s", got)
			}
		}
		d.waiters(t, "k", 0)
	}},
	{sentence: "A session in line that was promoted while it was not waiting holds the lease from then on; its /wait returns it", check: func(t *testing.T, d *door) {
		a, b, c := d.session(t), d.session(t), d.session(t)
		g := d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		d.want(t, b, "POST", "/v1/locks/k/enqueue", ``, 200, queued)
		owner := d.stats(t).Locks[0].Owner
		d.want(t, a, "POST", "/v1/locks/k/release", `{"token":"`+g.Token+`"}`, 204, "")
		gatewaytest.Eventually(t, "promoted", func() bool {
			locks := d.stats(t).Locks
			return len(locks) == 1 && locks[0].Owner != 0 && locks[0].Owner != owner
		})
		d.want(t, c, "POST", "/v1/locks/k", `{"acquire_timeout_s":0}`, 200, timedOut)
		g = d.grant(t, b, "/v1/locks/k/wait", `{"timeout_s":0}`)
		d.want(t, b, "POST", "/v1/locks/k/release", `{"token":"`+g.Token+`"}`, 204, "")
	}},
	{sentence: "A /wait that times out leaves the line; the next is not_enqueued", check: func(t *testing.T, d *door) {
		a, b := d.session(t), d.session(t)
		d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		d.want(t, b, "POST", "/v1/locks/k/enqueue", ``, 200, queued)
		d.want(t, b, "POST", "/v1/locks/k/wait", `{"timeout_s":0}`, 200, timedOut)
		d.want(t, b, "POST", "/v1/locks/k/wait", `{"timeout_s":0}`, 409, refused("not_enqueued"))
		d.want(t, b, "POST", "/v1/locks/k/enqueue", ``, 200, queued)
	}},
	{sentence: "A /wait that is cancelled leaves the line", check: func(t *testing.T, d *door) {
		a, b := d.session(t), d.session(t)
		d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		d.want(t, b, "POST", "/v1/locks/k/enqueue", ``, 200, queued)
		d.hangUp(t, b, "/v1/locks/k/wait", `{"timeout_s":30}`)()
		d.waiters(t, "k", 0)
		d.want(t, b, "POST", "/v1/locks/k/wait", `{"timeout_s":0}`, 409, refused("not_enqueued"))
	}},
	{sentence: "Client gone while waiting: nothing stays taken", check: func(t *testing.T, d *door) {
		a, b := d.session(t), d.session(t)
		for range 50 {
			g := d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0,"lease_ttl_s":600}`)
			now := d.hangUp(t, b, "/v1/locks/k", `{"acquire_timeout_s":30,"lease_ttl_s":600}`)
			d.waiters(t, "k", 1)
			now()
			d.want(t, a, "POST", "/v1/locks/k/release", `{"token":"`+g.Token+`"}`, 204, "")
			d.free(t, "k")
		}
	}},
	{sentence: "Two requests of one session are served one after the other (ping and DELETE never wait)", check: func(t *testing.T, d *door) {
		a, b := d.session(t), d.session(t)
		g := d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		first := d.later(t, b, "POST", "/v1/locks/k", `{"acquire_timeout_s":30}`)
		d.waiters(t, "k", 1)
		second := d.later(t, b, "POST", "/v1/locks/free", `{"acquire_timeout_s":0}`)
		d.want(t, "", "POST", "/v1/sessions/"+b+"/ping", "", 204, "")
		if locks := d.stats(t).Locks; len(locks) != 1 || len(second) != 0 {
			t.Errorf("the second overtook the first: %+v", locks)
		}
		d.want(t, a, "POST", "/v1/locks/k/release", `{"token":"`+g.Token+`"}`, 204, "")
		for _, told := range []<-chan string{first, second} {
			if got := <-told; !strings.Contains(got, `"status":"ok"`) {
				t.Errorf("told %s", got)
			}
		}
		d.want(t, "", "DELETE", "/v1/sessions/"+b, "", 204, "")
	}},
	{sentence: "seconds are clamped to the maxima, not refused", store: kvslots.Config{MaxTTL: time.Minute, MaxWait: time.Second}, check: func(t *testing.T, d *door) {
		a, b := d.session(t), d.session(t)
		if g := d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":99999999999999999999,"lease_ttl_s":99999999999999999999}`); g.LeaseTTL != 60 {
			t.Errorf("a lease of %d s", g.LeaseTTL)
		}
		d.want(t, b, "POST", "/v1/locks/k", `{"acquire_timeout_s":3600}`, 200, timedOut)
	}},
}

// idle sets the idle timeout that clients are told.
func idle(d time.Duration) func(o *options) {
	return func(o *options) { o.dialect.IdleTimeout = d }
}

func TestContract(t *testing.T) {
	for _, row := range contract {
		t.Run(row.sentence, func(t *testing.T) {
			t.Parallel()
			change := row.change
			if change == nil {
				change = func(*options) {}
			}
			row.check(t, openDoor(t, openStore(t, row.store), change))
		})
	}
}

// A session created at one gateway works at every other; its lease survives a
// gateway's end; enqueue at A, wait at B, release at C works.
func TestAcrossGateways(t *testing.T) {
	srv := startServer(t, t.TempDir())
	var doors []*door
	var ends []func()
	for range 3 {
		store, end := openPeer(t, srv, kvslots.Config{})
		doors, ends = append(doors, openDoor(t, store)), append(ends, end)
	}
	s, other := doors[0].session(t), doors[1].session(t)
	held := doors[2].grant(t, s, "/v1/locks/k", `{"acquire_timeout_s":0,"lease_ttl_s":600}`)
	doors[0].want(t, other, "POST", "/v1/locks/k/enqueue", "", 200, queued)
	ends[0]() // this gateway is gone
	doors[1].want(t, s, "POST", "/v1/locks/k/renew", `{"token":"`+held.Token+`","lease_ttl_s":600}`, 200, `\{"remaining_s":600\}`)
	told := doors[1].later(t, other, "POST", "/v1/locks/k/wait", `{"timeout_s":30}`)
	doors[2].want(t, s, "POST", "/v1/locks/k/release", `{"token":"`+held.Token+`"}`, 204, "")
	got := <-told
	if !strings.Contains(got, `"status":"ok"`) {
		t.Fatalf("the waiter was told %s", got)
	}
	doors[2].want(t, other, "POST", "/v1/locks/k/release", `{"token":"`+strings.Split(got, `"`)[7]+`"}`, 204, "")
	doors[1].free(t, "k")
}

// Unlike dflockd's, sessions outlive the server, and so does what they hold.
func TestSessionsOutliveARestart(t *testing.T) {
	dir := t.TempDir()
	srv := startServer(t, dir)
	store, end := openPeer(t, srv, kvslots.Config{Sole: true})
	d := openDoor(t, store)
	s := d.session(t)
	held := d.grant(t, s, "/v1/locks/k", `{"acquire_timeout_s":0,"lease_ttl_s":600}`)
	end()
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	store, _ = openPeer(t, startServer(t, dir), kvslots.Config{Sole: true})
	d = openDoor(t, store)
	d.want(t, s, "POST", "/v1/locks/k/renew", `{"token":"`+held.Token+`","lease_ttl_s":600}`, 200, `\{"remaining_s":600\}`)
	d.want(t, s, "POST", "/v1/locks/k/release", `{"token":"`+held.Token+`"}`, 204, "")
}
