package main

import (
	"net/http"
	"testing"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

func TestServeLimitsTheRate(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--http-rate-limit", "0.001") // and two at once
	p.want(t, "GET", "/l/"+pool, "", 404, "")
	p.want(t, "GET", "/l/"+pool, "", 404, "")
	p.want(t, "GET", "/l/"+pool, "", 429, `{"error":"rate limited"}`)
	p.want(t, "GET", "/metrics", "", 429, `{"error":"rate limited"}`)
	p.want(t, "GET", "/health", "", 200, `{"status":"ok"}`)
	p.want(t, "GET", "/ready", "", 200, `"status":"ready"`)
	wantCall(t, 1, "", "kvslots: rate limited\n", "inspect", pool, "--server", p.url)
}

func TestServeAllowsOrigins(t *testing.T) {
	p := startServe(t, map[string]string{"KVSLOTS_HTTP_CORS_ALLOWED_ORIGINS": "http://a.example, http://b.example:3000"},
		"--data-dir", t.TempDir(), "--auth-token", secretToken)
	for origin, want := range map[string]string{
		"http://a.example": "http://a.example", "http://b.example:3000": "http://b.example:3000", "http://c.example": "",
	} {
		code, header, _ := p.askWith(t, http.Header{"Origin": {origin}, "Access-Control-Request-Method": {"PUT"}}, "OPTIONS", "/l/"+pool, "")
		if got := header.Get("Access-Control-Allow-Origin"); code != http.StatusNoContent || got != want {
			t.Errorf("%s: %d, allowed %q, want %q", origin, code, got, want)
		}
	}
}

// A page of another name, and a foreign page, reach a gateway on loopback only if the
// operator allows it.
func TestServeGuardsLoopback(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--http-allowed-hosts", "slots.example.com")
	for host, want := range map[string]int{"evil.example.com": 403, "slots.example.com:8080": 200, "localhost": 200} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", p.url+"/v1/stats", nil)
		kvslotstest.Must(t, err)
		r.Host = host
		resp, err := http.DefaultClient.Do(r)
		kvslotstest.Must(t, err)
		if resp.Body.Close(); resp.StatusCode != want {
			t.Errorf("Host %s: %d, want %d", host, resp.StatusCode, want)
		}
	}
	code, _, body := p.askWith(t, http.Header{"Sec-Fetch-Site": {"cross-site"}}, "PUT", "/l/"+pool, `{"count":1}`)
	if code != 403 {
		t.Errorf("a foreign page: %d %s", code, body)
	}
}
