package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

func TestDebugAddr(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--debug-addr", "127.0.0.1:0", "--auth-token", "hunter2")
	d := &program{url: "http://" + p.logs.waitFor(t, "serving profiles to every user of this machine")["debug"].(string)}
	for _, c := range []struct {
		path, host string
		code       int
	}{
		{"/debug/pprof/heap", "", 200},
		{"/debug/pprof/trace?seconds=0.01", "", 200},
		{"/debug/pprof/goroutine", "", 200},
		{"/debug/pprof/goroutine?debug=2", "", 200}, // the profile, and no text
		{"/debug/pprof/cmdline", "", 404},
		{"/debug/pprof/none", "", 404},
		{"/", "", 404},
		{"/debug/pprof/heap", "localhost:1", 200},
		{"/debug/pprof/heap", "[::1]", 200},
		{"/debug/pprof/heap", "rebound.example.com", 403},
		{"/debug/pprof/heap", "127.0.0.1.example.com:6060", 403},
	} {
		if code, body := d.get(t, c.path, c.host); code != c.code || strings.Contains(body, "hunter2") {
			t.Errorf("GET %s of host %q: %d, want %d: %.200s", c.path, c.host, code, c.code, body)
		}
	}
	if code, _ := p.get(t, "/debug/pprof/heap", ""); code != 401 {
		t.Errorf("the gateway itself answers %d to a request for profiles", code)
	}
	p.end(t)
	if _, err := http.Get(d.url); err == nil {
		t.Error("profiles are served after the end")
	}
}

// get is a request that the OpenAPI document does not know.
func (p *program) get(t *testing.T, path, host string) (code int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+path, nil)
	kvslotstest.Must(t, err)
	r.Host = host
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	kvslotstest.Must(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	kvslotstest.Must(t, err)
	return answer.StatusCode, string(text)
}

// No profile contains an id, neither as text nor as numbers.
func TestProfilesContainNoIDs(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--debug-addr", "127.0.0.1:0")
	d := &program{url: "http://" + p.logs.waitFor(t, "serving profiles to every user of this machine")["debug"].(string)}
	p.want(t, "PUT", "/l/"+pool, `{"count":0}`, 200, "")
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		p.ask(t, "POST", "/l/"+pool+"/borrow", `{"ttl":30,"wait":50}`)
	}()
	p.eventually(t, "/l/"+pool, `"waiting":1`)
	id := uuid.MustParse(pool)
	traces := idTraces(id)
	for _, path := range []string{"goroutine", "goroutine?debug=2", "heap", "heap?debug=1", "allocs"} {
		code, body := d.get(t, "/debug/pprof/"+path, "")
		if code != 200 {
			t.Errorf("%s: %d", path, code)
		}
		for _, trace := range traces {
			if strings.Contains(body, trace) {
				t.Errorf("%s contains %s", path, trace)
			}
		}
	}
	p.stop()
	<-answered
}

// idTraces returns texts by which an id shows: its own, its bytes, and those in which a
// stack dump prints an array.
func idTraces(id uuid.UUID) []string {
	text := hex.EncodeToString(id[:])
	array := fmt.Sprintf("%#x, %#x, %#x, %#x", id[0], id[1], id[2], id[3])
	return []string{id.String(), text, text[:8], string(id[:8]), array}
}
