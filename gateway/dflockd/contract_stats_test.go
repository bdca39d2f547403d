package dflockd_test

import (
	"testing"
)

// statsContract is the part of statistics; see contract.
var statsContract = []clause{
	{sentence: "GET /v1/stats returns a snapshot of the lock-manager state", check: func(t *testing.T, d *fixture) {
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
			`"locks":\[\{"key":"deploy","owner_conn_id":`+n+`,"lease_expires_in_s":(2\d|30)(\.\d+)?,"waiters":1,"fence":`+n+`,"age_s":`+s+`,"queue":\[\{"position":1,"waited_s":`+s+`,"owner_conn_id":`+n+`\}\]\}\],`+
			`"semaphores":\[\{"key":"rate-limit","limit":5,"holders":1,"waiters":0,"held":\[\{"position":0,"owner_conn_id":`+n+`,"fence":`+n+`,"age_s":`+s+`,"lease_expires_in_s":(2\d|3[0-3])(\.\d+)?\}\],"queue":\[\]\}\],`+
			`"idle_locks":\[\{"key":"idle","idle_s":`+s+`\}\],"idle_semaphores":\[\{"key":"idle-too","idle_s":`+s+`\}\],"pools":\[\]\}`)
	}},
	{sentence: "connections is the sum of TCP connections plus active HTTP sessions", change: func(o *options) { o.dialect.Clients = func() int { return 40 } }, check: func(t *testing.T, d *fixture) {
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
}
