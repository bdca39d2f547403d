package dflockd_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots"
)

// aWhile is long for a busy machine, and short beside the lease of 33 s without which a wait
// of any length would end.
const aWhile = 15 * time.Second

// lockContract is the part of locks; see contract.
var lockContract = []clause{
	{sentence: "POST /v1/locks/{key} response: status ok|timeout, token, lease_ttl_s", check: func(t *testing.T, d *fixture) {
		a, b := d.session(t), d.session(t)
		d.want(t, a, "POST", "/v1/locks/k", `{"acquire_timeout_s":0,"lease_ttl_s":30}`, 200, `\{"status":"ok","token":"[0-9a-f]{32}","lease_ttl_s":30\}`)
		d.want(t, b, "POST", "/v1/locks/k", `{"acquire_timeout_s":1}`, 200, timedOut)
	}},
	{sentence: "POST /v1/locks/{key}/release response: 204 No Content", check: func(t *testing.T, d *fixture) {
		s := d.session(t)
		g := d.grant(t, s, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		d.want(t, s, "POST", "/v1/locks/k/release", `{"token":"`+g.Token+`"}`, 204, "")
		d.want(t, s, "POST", "/v1/locks/k/release", `{"token":"`+g.Token+`"}`, 404, refused("not_held"))
	}},
	{sentence: "POST /v1/locks/{key}/renew response: remaining_s", check: func(t *testing.T, d *fixture) {
		s := d.session(t)
		g := d.grant(t, s, "/v1/locks/k", `{"acquire_timeout_s":0,"lease_ttl_s":5}`)
		d.want(t, s, "POST", "/v1/locks/k/renew", `{"token":"`+g.Token+`","lease_ttl_s":60}`, 200, `\{"remaining_s":60\}`)
		d.want(t, s, "POST", "/v1/locks/k/renew", `{"token":"`+g.Token+`"}`, 200, `\{"remaining_s":33\}`)
	}},
	{sentence: "POST /v1/locks/{key} blocks up to acquire_timeout_s server-side. 0 is non-blocking (try-lock)", check: func(t *testing.T, d *fixture) {
		a, b := d.session(t), d.session(t)
		g := d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		asked := time.Now()
		d.want(t, b, "POST", "/v1/locks/k", `{"acquire_timeout_s":0}`, 200, timedOut)
		if took := time.Since(asked); took > aWhile {
			t.Errorf("a try took %v", took)
		}
		asked = time.Now()
		d.want(t, b, "POST", "/v1/locks/k", `{"acquire_timeout_s":1}`, 200, timedOut)
		if took := time.Since(asked); took < time.Second || took > aWhile {
			t.Errorf("a wait of 1 s took %v", took)
		}
		answered := d.later(t, b, "POST", "/v1/locks/k", `{"acquire_timeout_s":30}`)
		d.waiters(t, "k", 1)
		d.want(t, a, "POST", "/v1/locks/k/release", `{"token":"`+g.Token+`"}`, 204, "")
		if got := <-answered; !strings.Contains(got, `"status":"ok"`) {
			t.Errorf("the waiter got %s", got)
		}
	}},
	{sentence: "lease_ttl_s defaults to --default-lease-ttl when omitted", change: func(o *options) { o.dialect.DefaultLeaseTTL = 17 * time.Second }, check: func(t *testing.T, d *fixture) {
		s := d.session(t)
		for i, body := range []string{`{"acquire_timeout_s":0}`, `{"acquire_timeout_s":0,"lease_ttl_s":0}`} {
			if g := d.grant(t, s, fmt.Sprint("/v1/locks/k", i), body); g.LeaseTTL != 17 {
				t.Errorf("%s: a lease of %d s", body, g.LeaseTTL)
			}
		}
		g := d.grant(t, s, "/v1/locks/e/enqueue", "")
		d.want(t, s, "POST", "/v1/locks/e/renew", `{"token":"`+g.Token+`"}`, 200, `\{"remaining_s":17\}`)
	}},
	{sentence: "404 not_held: release/renew on a token the server doesn't have", check: func(t *testing.T, d *fixture) {
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
	{sentence: "A token's first 16 digits are its fence", check: func(t *testing.T, d *fixture) {
		s := d.session(t)
		g := d.grant(t, s, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		fence, err := strconv.ParseUint(g.Token[:16], 16, 64)
		if locks := d.stats(t).Locks; err != nil || len(locks) != 1 || locks[0].Fence != fence {
			t.Errorf("token %s, locks %+v", g.Token, locks)
		}
	}},
	{sentence: "Keys: 1–256 bytes, no whitespace, percent-decoded from the path", check: func(t *testing.T, d *fixture) {
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
	{sentence: "seconds are clamped to the maxima, not refused", store: kvslots.Config{MaxTTL: time.Minute}, change: func(o *options) { o.gateway.Lending.MaxWait = time.Second }, check: func(t *testing.T, d *fixture) {
		a, b := d.session(t), d.session(t)
		if g := d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":99999999999999999999,"lease_ttl_s":99999999999999999999}`); g.LeaseTTL != 60 {
			t.Errorf("a lease of %d s", g.LeaseTTL)
		}
		d.want(t, b, "POST", "/v1/locks/k", `{"acquire_timeout_s":3600}`, 200, timedOut)
	}},
	{sentence: "503 max_locks: server-wide unique-key cap reached", store: kvslots.Config{MaxLocks: 2}, check: func(t *testing.T, d *fixture) {
		s := d.session(t)
		d.grant(t, s, "/v1/locks/a", `{"acquire_timeout_s":0}`)
		g := d.grant(t, s, "/v1/semaphores/b", `{"acquire_timeout_s":0,"limit":2}`)
		d.want(t, s, "POST", "/v1/locks/c", `{"acquire_timeout_s":0}`, 503, refused("max_locks"))
		d.want(t, s, "POST", "/v1/locks/c/enqueue", ``, 503, refused("max_locks"))
		d.grant(t, s, "/v1/semaphores/b", `{"acquire_timeout_s":0,"limit":2}`) // no new key
		d.want(t, s, "POST", "/v1/semaphores/b/release", `{"token":"`+g.Token+`"}`, 204, "")
	}},
}
