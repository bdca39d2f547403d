package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/kvslots/subjects"
)

// Expired leases are counted by the API of what they held, also if they were taken over NATS.
func TestExpiriesByAPI(t *testing.T) {
	t.Parallel()
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--nats-addr", "127.0.0.1:0")
	nc := connectNATS(t, p.natsURL(t))
	serveFunction(t, p.natsURL(t), "f", done)
	const (
		pool    = "5f6f3a44-7d0c-4b5e-8a55-2d4a5f7f9b10"
		acquire = `{"acquire_timeout_s":0,"lease_ttl_s":1}`
		keep    = `{"key":"k","ttl":{"value":1,"unit":"second"},"auto_release":false}`
	)
	want := func(header http.Header, path, body string) (answer string) {
		t.Helper()
		code, _, answer := p.askWith(t, header, "POST", path, body)
		if code >= http.StatusBadRequest {
			t.Fatalf("%s: %d %s", path, code, answer)
		}
		return answer
	}
	p.want(t, "PUT", "/l/"+pool, `{"count":2}`, http.StatusOK, "")
	want(nil, "/l/"+pool+"/borrow", `{"ttl":1}`)
	session := secretText.FindString(want(nil, "/v1/sessions", ""))
	want(http.Header{"X-Dflockd-Session": {session}}, "/v1/locks/a", acquire)
	want(nil, "/rpc", rpc("f", "{}", keep))
	for subject, body := range map[string]string{
		subjects.PoolBorrow:                          `{"id":"` + pool + `","ttl":1}`,
		subjects.Of(subjects.Lock, subjects.Acquire): `{"session":"` + session + `","key":"b",` + acquire[1:],
		subjects.RPC:                                 rpc("f", "{}", strings.Replace(keep, `"k"`, `"l"`, 1)),
	} {
		if answer, err := nc.RequestWithContext(t.Context(), subject, []byte(body)); err != nil || answer.Header.Get("Nats-Service-Error") != "" {
			t.Fatal(subject, answer, err)
		}
	}
	for _, api := range []string{"library", "dflockd", "forrst"} {
		p.eventually(t, "/metrics", `kvslots_expiries_total{api="`+api+`"} 2`)
	}
}
