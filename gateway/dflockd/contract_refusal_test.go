package dflockd_test

import (
	"strings"
	"testing"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// refusalContract is the part of what the gateway refuses whatever a request is about; see contract.
var refusalContract = []clause{
	{sentence: "When --auth-token is set, every request must carry it; unauthorised requests get 401 unauthorized", change: func(o *options) { o.gateway.Tokens = gateway.NewTokens("hunter2") }, check: func(t *testing.T, d *fixture) {
		for _, r := range requests {
			d.want(t, someSession, r.method, r.path, r.body, 401, refused("unauthorized"))
		}
		if code, body, _ := d.do(t, "", "POST", "/v1/sessions", "", "Authorization", "Bearer hunter2"); code != 200 {
			t.Errorf("with the token: %d %s", code, body)
		}
	}},
	{sentence: "400 bad_request: malformed input, missing required field, invalid key/token", check: func(t *testing.T, d *fixture) {
		s := d.session(t)
		d.want(t, s, "POST", "/v1/locks/k", `{`, 400, refused("bad_request"))
		d.want(t, s, "POST", "/v1/locks/k", `{}`, 400, refused("bad_request"))
		d.want(t, s, "POST", "/v1/locks/a%20b", `{"acquire_timeout_s":0}`, 400, refused("bad_request"))
		d.want(t, s, "POST", "/v1/locks/k/release", `{"token":"x"}`, 400, refused("bad_request"))
	}},
	{sentence: "404 not_found: path doesn't match a route", check: func(t *testing.T, d *fixture) {
		d.want(t, "", "GET", "/v1/x", "", 404, refused("not_found"))
		d.want(t, "", "POST", "/v1/locks/k/steal", "{}", 404, refused("not_found"))
	}},
	{sentence: "405 method_not_allowed: path matches a different method", check: func(t *testing.T, d *fixture) {
		for path, allow := range map[string]string{
			"/v1/sessions": "POST", "/v1/sessions/" + someSession: "DELETE", "/v1/stats": "GET, HEAD", "/v1/locks/k": "POST", "/v1/semaphores/k/wait": "POST",
		} {
			code, body, header := d.do(t, "", "PATCH", path, "")
			if code != 405 || !strings.HasPrefix(body, `{"error":"method_not_allowed"`) || header.Get("Allow") != allow {
				t.Errorf("%s: %d %s, Allow %q", path, code, body, header.Get("Allow"))
			}
		}
	}},
	{sentence: "408 client_canceled: client disconnected while a long-poll was in flight", check: func(t *testing.T, d *fixture) {
		a, b := d.session(t), d.session(t)
		d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		now := d.hangUp(t, b, "/v1/locks/k", `{"acquire_timeout_s":30}`)
		d.waiters(t, "k", 1)
		now()
		d.waiters(t, "k", 0)
		gatewaytest.Eventually(t, "the log says 408", func() bool { return strings.Contains(d.Logs.String(), `"status":408`) })
	}},
	{sentence: "429 rate_limited: per-IP request rate exceeded", change: func(o *options) { o.gateway.RateLimit, o.gateway.RateBurst = 0.001, 1 }, check: func(t *testing.T, d *fixture) {
		d.session(t)
		d.want(t, "", "POST", "/v1/sessions", "", 429, refused("rate_limited"))
	}},
	{sentence: "503 draining: server is in graceful shutdown", check: func(t *testing.T, d *fixture) {
		a, b, c := d.session(t), d.session(t), d.session(t)
		g := d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		d.want(t, b, "POST", "/v1/locks/k/enqueue", ``, 200, queued)
		waits := d.later(t, b, "POST", "/v1/locks/k/wait", `{"timeout_s":30}`)
		acquires := d.later(t, c, "POST", "/v1/locks/k", `{"acquire_timeout_s":30}`)
		d.waiters(t, "k", 2)
		d.Lending.Stop()
		for _, answered := range []<-chan string{waits, acquires} {
			if got := <-answered; !strings.Contains(got, `"draining"`) {
				t.Errorf("a waiter got %s", got)
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
	{sentence: "CORS: disabled by default", check: func(t *testing.T, d *fixture) {
		code, _, header := d.do(t, "", "OPTIONS", "/v1/stats", "", "Origin", "https://example.com", "Access-Control-Request-Method", "GET")
		if code != 405 || header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%d, %v", code, header)
		}
	}},
	{sentence: "CORS: preflight OPTIONS requests with Access-Control-Request-Method are short-circuited with 204", change: func(o *options) { o.gateway.CORSOrigins = []string{"https://example.com"} }, check: func(t *testing.T, d *fixture) {
		code, _, header := d.do(t, "", "OPTIONS", "/v1/locks/k", "", "Origin", "https://example.com",
			"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", strings.ToLower(wire.SessionHeader))
		if code != 204 || header.Get("Access-Control-Allow-Origin") != "https://example.com" || header.Get("Access-Control-Allow-Headers") == "" {
			t.Errorf("%d, %v", code, header)
		}
	}},
}
