package main

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// The flags apply to /v1.
func TestServeSessions(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--sync", "interval", "--nats-addr", "127.0.0.1:0",
		"--default-lease-ttl", "17s", "--http-session-idle-timeout", "5s", "--max-locks", "1", "--max-waiters", "1", "--max-sessions-per-ip", "3")
	var sessions []http.Header
	for range 3 {
		var session struct {
			ID   string `json:"session_id"`
			Idle int    `json:"idle_timeout_s"`
		}
		if _, body := p.ask(t, "POST", "/v1/sessions", ""); json.Unmarshal([]byte(body), &session) != nil || session.Idle != 5 {
			t.Fatalf("create: %s", body)
		}
		sessions = append(sessions, http.Header{"X-Dflockd-Session": {session.ID}})
	}
	for _, c := range []struct {
		by                 int
		path, body, answer string
	}{
		{0, "/v1/sessions", ``, `{"error":"max_sessions_per_ip"`},
		{0, "/v1/locks/k", `{"acquire_timeout_s":0}`, `"lease_ttl_s":17}`},
		{0, "/v1/locks/other", `{"acquire_timeout_s":0}`, `{"error":"max_locks"`},
		{1, "/v1/locks/k/enqueue", ``, `{"status":"queued"}`},
		{2, "/v1/locks/k/enqueue", ``, `{"error":"max_waiters"`},
	} {
		if code, _, body := p.askWith(t, sessions[c.by], "POST", c.path, c.body); !strings.Contains(body, c.answer) {
			t.Errorf("%s %s: %d %s, want %s", c.path, c.body, code, body, c.answer)
		}
	}
	if _, body := p.ask(t, "GET", "/v1/stats", ""); !strings.Contains(body, `"connections":3,`) {
		t.Errorf("the gateway counts its own connection as a client: %s", body)
	}
}

// A session may have a share of the locks, and the clients of an address another one, over HTTP
// and NATS together.
func TestServeShares(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--sync", "interval", "--nats-addr", "127.0.0.1:0", "--max-locks", "8", "--max-locks-per-session", "2", "--max-locks-per-ip", "4", "--max-sessions-per-ip", "3")
	nc := connectNATS(t, p.natsURL(t))
	create := func() (session string) {
		t.Helper()
		m, err := nc.RequestWithContext(t.Context(), "kvslots.session.create", nil)
		kvslotstest.Must(t, err)
		var created struct {
			ID string `json:"session_id"`
		}
		if err := json.Unmarshal(m.Data, &created); err != nil || created.ID == "" {
			t.Fatalf("%s, %v", m.Data, err)
		}
		return created.ID
	}
	sessions := []string{create(), create(), create()}
	code, header, body := p.askWith(t, nil, "POST", "/v1/sessions", "")
	if code != 503 || header.Get("Retry-After") == "" || !strings.Contains(body, `"max_sessions_per_ip"`) {
		t.Errorf("a session over HTTP beyond those over NATS: %d %s", code, body)
	}
	for i, c := range []struct {
		by   int
		want string
	}{{0, ""}, {0, ""}, {0, "max_locks_per_session"}, {1, ""}, {1, ""}, {2, "max_locks_per_ip"}} {
		code, header, body := p.askWith(t, http.Header{"X-Dflockd-Session": {sessions[c.by]}}, "POST", "/v1/locks/k"+strconv.Itoa(i), `{"acquire_timeout_s":0}`)
		if c.want == "" {
			if code != 200 {
				t.Errorf("lock %d: %d %s", i, code, body)
			}
			continue
		}
		if code != 429 || header.Get("Retry-After") == "" || header.Get("Kvslots-Error") != c.want || !strings.Contains(body, c.want) {
			t.Errorf("lock %d: %d %s, want %s", i, code, body, c.want)
		}
	}
}

func (p *program) newSession(t *testing.T) http.Header {
	t.Helper()
	var session struct {
		ID string `json:"session_id"`
	}
	if _, body := p.ask(t, "POST", "/v1/sessions", ""); json.Unmarshal([]byte(body), &session) != nil || session.ID == "" {
		t.Fatal(body)
	}
	return http.Header{"X-Dflockd-Session": {session.ID}}
}
