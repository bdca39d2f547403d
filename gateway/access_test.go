package gateway_test

import (
	"net/url"
	"testing"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// Over HTTP a gateway with tokens asks for one whatever names the pool: that of readers does for what changes nothing.
func TestAccessOfOperators(t *testing.T) {
	tokens := gateway.NewTokens()
	tokens.Replace(gateway.Token{Token: "hunter1"}, gateway.Token{Token: "hunter2", ReadOnly: true})
	g := openOperated(t, tokens)
	full := []string{"Authorization", "Bearer hunter1"}
	pool := uuid.New()
	hash := kvslots.ByID(pool).Hash()
	g.ask(t, 200, nil, "PUT", "/l/"+pool.String(), `{"count":2,"name":"test accounts"}`, full...)
	var session wire.Session
	g.ask(t, 200, &session, "POST", "/v1/sessions", "", full...)
	in := append(full, wire.SessionHeader, session.ID)
	var lock, semaphore wire.Grant
	g.ask(t, 200, &lock, "POST", "/v1/locks/deploy", `{"acquire_timeout_s":0}`, in...)
	g.ask(t, 200, &semaphore, "POST", "/v1/semaphores/build", `{"acquire_timeout_s":0,"limit":2}`, in...)
	var lease wire.Lease
	g.ask(t, 200, &lease, "POST", "/l/"+pool.String()+"/borrow", `{"ttl":60}`, append(full, wire.RequestKeyHeader, "key")...)

	type request struct {
		method, path, body string
		code               int // with the token that may do all
		header             []string
	}
	requests := []request{{"GET", "/v1/pools", "", 200, nil}}
	for ref, limit := range map[string]int{
		pool.String(): 409, hash: 409, hash[:8]: 409, url.PathEscape("test accounts"): 409, "deploy": 409, "build": 200,
	} {
		ref = "/v1/pools/" + ref
		requests = append(requests,
			request{"GET", ref + "/leases", "", 200, nil}, request{"GET", ref + "/line", "", 200, nil},
			request{"DELETE", ref + "/leases/0?fence=1", "", 409, nil},
			request{"PUT", ref + "/positions/0", `{"out":false}`, 200, nil}, request{"PUT", ref + "/pause", `{"out":false}`, 200, nil},
			request{"GET", ref + "?leases=1&line=1", "", 200, nil}, request{"PUT", ref + "/limit", `{"limit":3}`, limit, nil},
		)
	}
	requests = append(requests,
		request{"PUT", "/v1/pools/unused/pause", `{"out":true}`, 200, nil},
		request{"GET", "/v1/pools/self/leases/self", "", 200, []string{wire.PoolHeader, pool.String(), wire.LeaseHeader, lease.Lease.String()}},
		request{"GET", "/v1/pools/self/line/self", "", 200, []string{wire.PoolHeader, pool.String(), wire.RequestKeyHeader, "key"}},
		request{"GET", "/v1/pools/deploy/leases/self", "", 200, []string{wire.SessionHeader, session.ID, wire.LeaseHeader, lock.Token}},
		request{"GET", "/v1/pools/build/leases/self", "", 200, []string{wire.SessionHeader, session.ID, wire.LeaseHeader, semaphore.Token}},
	)
	for _, r := range requests {
		reads := 403
		if r.method == "GET" {
			reads = r.code
		}
		for token, code := range map[string]int{"": 401, "hunter2": reads, "hunter1": r.code} {
			header := append([]string{"Authorization", "Bearer " + token}, r.header...)
			if got, text, _ := g.Do(t, r.method, r.path, r.body, header...); got != code {
				t.Errorf("%s %s with %q: %d %s, want %d", r.method, r.path, token, got, text, code)
			}
		}
	}
}
