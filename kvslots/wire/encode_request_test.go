package wire

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/subjects"
)

// What clients encode is what gateways decode, over HTTP and over NATS.
func TestEncodedRequests(t *testing.T) {
	const id = "9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01"
	pool := uuid.MustParse(id)
	for _, c := range []struct {
		name                  string
		route                 Route
		params                Params
		target, body, message string
	}{
		{"register", RegisterPool, Params{Pool: pool, Name: new("")}, "/l/self", `{"count":0,"name":""}`, `{"id":"` + id + `","count":0,"name":""}`},
		{"inspect", InspectPool, Params{Pool: pool}, "/l/self", ``, `{"id":"` + id + `"}`},
		{"borrow", Borrow, Params{Pool: pool, TTL: time.Second, Wait: 2 * time.Second, Label: "<é"}, "/l/self/borrow", `{"ttl":1,"wait":2,"label":"<é"}`, `{"id":"` + id + `","ttl":1,"wait":2,"label":"<é"}`},
		{"return", Return, Params{Pool: pool, LeaseID: pool}, "/l/self/return", `{"lease":"` + id + `"}`, `{"id":"` + id + `","lease":"` + id + `"}`},
		{"ping", PingSession, Params{Session: testToken}, "/v1/sessions/" + testToken + "/ping", `{}`, `{"session":"` + testToken + `"}`},
		{"acquire", ResourceRoute(kvslots.KindLock, subjects.Acquire), Params{Session: testToken, Key: "a/b"}, "/v1/locks/a%2Fb", `{"acquire_timeout_s":0}`, `{"session":"` + testToken + `","key":"a/b","acquire_timeout_s":0}`},
		{"list", ListPools, Params{Operator: &OperatorParams{Query: kvslots.PoolQuery{Order: kvslots.ByInUse, Match: "a&b", Max: 5}}}, "/v1/pools?limit=5&q=a%26b&sort=in_use", ``, `{"sort":"in_use","q":"a&b","limit":5}`},
		{"read", ReadPool, Params{Operator: &OperatorParams{Find: "a b", Page: kvslots.DetailPage{MaxHolders: 1}}}, "/v1/pools/a%20b?leases=1&line=0", ``, `{"ref":"a b","leases":1,"line":0}`},
		{"evict", Evict, Params{Operator: &OperatorParams{Find: "x", Position: 3, Fence: 9}}, "/v1/pools/x/leases/3?fence=9", ``, `{"ref":"x","position":3,"fence":9}`},
		{"out", SetOut, Params{Operator: &OperatorParams{Find: "x"}}, "/v1/pools/x/positions/0", `{"out":false}`, `{"ref":"x","position":0,"out":false}`},
		{"lease", ReadHolder, Params{Pool: pool, LeaseID: pool}, "/v1/pools/self/leases/self", ``, `{"ref":"` + id + `","lease":"` + id + `"}`},
		{"grant", ReadHolder, Params{Session: testToken, Key: "k", Token: testToken}, "/v1/pools/k/leases/self", ``, `{"session":"` + testToken + `","ref":"k","token":"` + testToken + `"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.route.Target(&c.params); got != c.target {
				t.Errorf("target %s, want %s", got, c.target)
			}
			if got := string(c.route.Body(&c.params)); got != c.body {
				t.Errorf("body %s, want %s", got, c.body)
			}
			message := c.route.Message(&c.params)
			if string(message) != c.message {
				t.Errorf("message %s, want %s", message, c.message)
			}
			var got Params
			if err := c.route.Read(&Source{Body: message, Header: http.Header{}}, &got); err != nil {
				t.Error(err)
			}
			if again := c.route.Message(&got); string(again) != c.message {
				t.Errorf("decoded %s", again)
			}
		})
	}
}

func TestSecondsAreRoundedUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{0: 0, 1: 1, time.Second: 1, time.Second + 1: 2} {
		if got := Seconds(d); got != want {
			t.Errorf("%v are %d s", d, got)
		}
	}
}
