package dflockd_test

import (
	"strings"
	"testing"
)

// semaphoreContract is the part of semaphores; see contract.
var semaphoreContract = []clause{
	{sentence: "Semaphores: same shape, with a required limit", check: func(t *testing.T, d *fixture) {
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
		answered := d.later(t, c, "POST", "/v1/semaphores/s/wait", `{"timeout_s":30}`)
		d.want(t, a, "POST", "/v1/semaphores/s/release", `{"token":"`+first.Token+`"}`, 204, "")
		if got := <-answered; !strings.Contains(got, `"status":"ok"`) {
			t.Errorf("the waiter got %s", got)
		}
	}},
	{sentence: "The same key cannot be used as both a lock and a semaphore", check: func(t *testing.T, d *fixture) {
		a, b := d.session(t), d.session(t)
		d.grant(t, a, "/v1/locks/l", `{"acquire_timeout_s":0}`)
		d.grant(t, a, "/v1/semaphores/s", `{"acquire_timeout_s":0,"limit":1}`)
		d.want(t, b, "POST", "/v1/semaphores/l", `{"acquire_timeout_s":0,"limit":1}`, 409, refused("limit_mismatch"))
		d.want(t, b, "POST", "/v1/semaphores/l/enqueue", `{"limit":1}`, 409, refused("limit_mismatch"))
		d.want(t, b, "POST", "/v1/locks/s", `{"acquire_timeout_s":0}`, 409, refused("limit_mismatch"))
		d.want(t, b, "POST", "/v1/locks/s/enqueue", ``, 409, refused("limit_mismatch"))
	}},
	{sentence: "Mismatching limit for an existing key returns 409 limit_mismatch", check: func(t *testing.T, d *fixture) {
		a, b := d.session(t), d.session(t)
		g := d.grant(t, a, "/v1/semaphores/s", `{"acquire_timeout_s":0,"limit":3}`)
		d.want(t, b, "POST", "/v1/semaphores/s", `{"acquire_timeout_s":0,"limit":4}`, 409, refused("limit_mismatch"))
		d.want(t, b, "POST", "/v1/semaphores/s/enqueue", `{"limit":2}`, 409, refused("limit_mismatch"))
		d.want(t, a, "POST", "/v1/semaphores/s/release", `{"token":"`+g.Token+`"}`, 204, "")
		d.grant(t, b, "/v1/semaphores/s", `{"acquire_timeout_s":0,"limit":4}`) // no lease holds it to the old one
	}},
}
