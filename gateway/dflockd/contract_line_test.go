package dflockd_test

import (
	"strings"
	"testing"

	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/kvslots"
)

// lineContract is the part of the line for a lock: enqueue and wait; see contract.
var lineContract = []clause{
	{sentence: `enqueue is non-blocking and returns either "acquired" (you got the slot immediately) or "queued" (call wait next)`, check: func(t *testing.T, d *fixture) {
		a, b := d.session(t), d.session(t)
		code, body, _ := d.do(t, a, "POST", "/v1/locks/k/enqueue", `{"lease_ttl_s":30}`)
		if code != 200 || !strings.HasPrefix(body, `{"status":"acquired","token":"`) || !strings.HasSuffix(body, `","lease_ttl_s":30}`) {
			t.Fatalf("got %d %s", code, body)
		}
		token := strings.Split(body, `"`)[7]
		d.want(t, b, "POST", "/v1/locks/k/enqueue", `{"lease_ttl_s":20}`, 200, queued)
		answered := d.later(t, b, "POST", "/v1/locks/k/wait", `{"timeout_s":30}`)
		d.want(t, a, "POST", "/v1/locks/k/release", `{"token":"`+token+`"}`, 204, "")
		if got := <-answered; !strings.Contains(got, `"status":"ok"`) || !strings.Contains(got, `"lease_ttl_s":20`) {
			t.Errorf("the waiter got %s", got)
		}
	}},
	{sentence: "The session connID is what binds enqueue and wait: they don't share a token", check: func(t *testing.T, d *fixture) {
		a, b, c := d.session(t), d.session(t), d.session(t)
		d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		d.want(t, b, "POST", "/v1/locks/k/enqueue", "", 200, queued)
		d.want(t, c, "POST", "/v1/locks/k/wait", `{"timeout_s":0}`, 409, refused("not_enqueued"))
		d.want(t, b, "POST", "/v1/locks/k/wait", `{"timeout_s":0}`, 200, timedOut)
	}},
	{sentence: "409 already_enqueued: caller already has an enqueued state for this key", check: func(t *testing.T, d *fixture) {
		a, b := d.session(t), d.session(t)
		d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		d.want(t, b, "POST", "/v1/locks/k/enqueue", "", 200, queued)
		d.want(t, b, "POST", "/v1/locks/k/enqueue", "", 409, refused("already_enqueued"))
		d.want(t, b, "POST", "/v1/locks/other/enqueue", "", 200, `.*"acquired".*`)
	}},
	{sentence: "409 not_enqueued: wait without a matching enqueue", check: func(t *testing.T, d *fixture) {
		d.want(t, d.session(t), "POST", "/v1/locks/k/wait", `{"timeout_s":0}`, 409, refused("not_enqueued"))
		d.want(t, d.session(t), "POST", "/v1/semaphores/k/wait", `{"timeout_s":0}`, 409, refused("not_enqueued"))
	}},
	{sentence: "409 lease_expired: promoted holder's lease expired before observation", check: func(t *testing.T, d *fixture) {
		a, b := d.session(t), d.session(t)
		g := d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		d.want(t, b, "POST", "/v1/locks/k/enqueue", `{"lease_ttl_s":1}`, 200, queued)
		d.want(t, a, "POST", "/v1/locks/k/release", `{"token":"`+g.Token+`"}`, 204, "")
		d.free(t, "k") // promoted, and over
		d.want(t, b, "POST", "/v1/locks/k/wait", `{"timeout_s":5}`, 409, refused("lease_expired"))
		d.want(t, b, "POST", "/v1/locks/k/wait", `{"timeout_s":5}`, 409, refused("not_enqueued"))
	}},
	{sentence: "503 max_waiters: per-key waiter cap reached", store: kvslots.Config{MaxWaiters: 1}, check: func(t *testing.T, d *fixture) {
		a, b, c := d.session(t), d.session(t), d.session(t)
		d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		d.want(t, b, "POST", "/v1/locks/k/enqueue", ``, 200, queued)
		d.want(t, c, "POST", "/v1/locks/k", `{"acquire_timeout_s":5}`, 503, refused("max_waiters"))
		d.want(t, c, "POST", "/v1/locks/k/enqueue", ``, 503, refused("max_waiters"))
	}},
	{sentence: "A /wait that times out releases any just-granted slot back to the queue", check: func(t *testing.T, d *fixture) {
		a, b, c := d.session(t), d.session(t), d.session(t)
		g := d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		d.want(t, b, "POST", "/v1/locks/k/enqueue", ``, 200, queued)
		d.want(t, b, "POST", "/v1/locks/k/wait", `{"timeout_s":1}`, 200, timedOut)
		d.want(t, a, "POST", "/v1/locks/k/release", `{"token":"`+g.Token+`"}`, 204, "")
		d.grant(t, c, "/v1/locks/k", `{"acquire_timeout_s":0}`)
	}},
	{sentence: "A /wait whose client disconnects releases any just-granted slot back to the queue", check: func(t *testing.T, d *fixture) {
		a, b, c := d.session(t), d.session(t), d.session(t)
		for range 50 {
			g := d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0,"lease_ttl_s":600}`)
			d.want(t, b, "POST", "/v1/locks/k/enqueue", `{"lease_ttl_s":600}`, 200, queued)
			now := d.hangUp(t, b, "/v1/locks/k/wait", `{"timeout_s":30}`)
			answered := d.later(t, c, "POST", "/v1/locks/k", `{"acquire_timeout_s":30}`)
			d.waiters(t, "k", 2)
			gatewaytest.Eventually(t, "both waits have begun", func() bool { return d.Lending.Open() == 2 })
			now()
			d.want(t, a, "POST", "/v1/locks/k/release", `{"token":"`+g.Token+`"}`, 204, "")
			got := <-answered
			if !strings.Contains(got, `"status":"ok"`) {
				t.Fatalf("the next in line got %s", got)
			}
			d.want(t, c, "POST", "/v1/locks/k/release", `{"token":"`+strings.Split(got, `"`)[7]+`"}`, 204, "")
			d.free(t, "k")
		}
	}},
	{sentence: "A session in line that was promoted while it was not waiting holds the lease from then on; its /wait returns it", check: func(t *testing.T, d *fixture) {
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
	{sentence: "A /wait that times out leaves the line; the next is not_enqueued", check: func(t *testing.T, d *fixture) {
		a, b := d.session(t), d.session(t)
		d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		d.want(t, b, "POST", "/v1/locks/k/enqueue", ``, 200, queued)
		d.want(t, b, "POST", "/v1/locks/k/wait", `{"timeout_s":0}`, 200, timedOut)
		d.want(t, b, "POST", "/v1/locks/k/wait", `{"timeout_s":0}`, 409, refused("not_enqueued"))
		d.want(t, b, "POST", "/v1/locks/k/enqueue", ``, 200, queued)
	}},
	{sentence: "A /wait that is cancelled leaves the line", check: func(t *testing.T, d *fixture) {
		a, b := d.session(t), d.session(t)
		d.grant(t, a, "/v1/locks/k", `{"acquire_timeout_s":0}`)
		d.want(t, b, "POST", "/v1/locks/k/enqueue", ``, 200, queued)
		now := d.hangUp(t, b, "/v1/locks/k/wait", `{"timeout_s":30}`)
		gatewaytest.Eventually(t, "the wait has begun", func() bool { return d.Lending.Open() == 1 })
		now()
		d.waiters(t, "k", 0)
		d.want(t, b, "POST", "/v1/locks/k/wait", `{"timeout_s":0}`, 409, refused("not_enqueued"))
	}},
	{sentence: "Client gone while waiting: nothing stays taken", check: func(t *testing.T, d *fixture) {
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
}
