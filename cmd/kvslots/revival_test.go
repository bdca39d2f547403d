package main

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

const otherPool = "11111111-2222-4333-8444-555555555555"

// Leases, locks, sessions and pools that ended before kill -9 do not come back, even
// after the minimal lifetime of a marker. (entry.MarkerTTL describes the server's
// behaviour; the tests of kvslots check the same by the TTLs of the records.)
func TestSoakNothingComesBackAfterKill(t *testing.T) {
	if os.Getenv("KVSLOTS_SOAK") == "" {
		t.Skip("make soak")
	}
	args := []string{"--data-dir", t.TempDir(), "--http-session-idle-timeout", "50m"}
	process, p := serveProcess(t, args...)
	p.want(t, "PUT", "/l/"+pool, `{"count":2}`, 200, "")
	p.want(t, "PUT", "/l/"+otherPool, `{"count":1}`, 200, "")
	p.borrowAndReturn(t, "3000")
	ended, living := p.newSession(t), p.newSession(t)
	_, _, body := p.askWith(t, living, "POST", "/v1/locks/k", `{"acquire_timeout_s":0,"lease_ttl_s":3000}`)
	var grant struct{ Token string }
	if err := json.Unmarshal([]byte(body), &grant); err != nil || grant.Token == "" {
		t.Fatal(body)
	}
	if code, _, body := p.askWith(t, living, "POST", "/v1/locks/k/release", `{"token":"`+grant.Token+`"}`); code != 204 {
		t.Fatal(code, body)
	}
	p.want(t, "DELETE", "/v1/sessions/"+ended.Get("X-Dflockd-Session"), "", 204, "")
	p.want(t, "DELETE", "/l/"+otherPool, "", 200, "")

	time.Sleep(140 * time.Second) // markers go only with time
	kvslotstest.Must(t, process.Process.Kill())
	process.Wait()
	_, p = serveProcess(t, args...)
	p.want(t, "GET", "/l/"+pool, "", 200, `"in_use":0,"available":2`)
	p.want(t, "GET", "/l/"+otherPool, "", 404, "")
	p.want(t, "POST", "/v1/sessions/"+ended.Get("X-Dflockd-Session")+"/ping", "", 410, "")
	if _, _, body := p.askWith(t, p.newSession(t), "POST", "/v1/locks/k", `{"acquire_timeout_s":0}`); !strings.Contains(body, `"status":"ok"`) {
		t.Errorf("lock: %s", body)
	}
}

func (p *program) borrowAndReturn(t *testing.T, ttl string) {
	t.Helper()
	var lease struct{ Lease string }
	if _, body := p.ask(t, "POST", "/l/"+pool+"/borrow", `{"ttl":`+ttl+`}`); json.Unmarshal([]byte(body), &lease) != nil || lease.Lease == "" {
		t.Fatal(body)
	}
	p.want(t, "POST", "/l/"+pool+"/return", `{"lease":"`+lease.Lease+`"}`, 200, `{"returned":true}`)
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
