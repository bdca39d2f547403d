package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestReady(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--auth-token", "a-token")
	wantCall(t, exitDone, "ready, sync always\n", "", "ready", "--server", p.url)
	code, stdout, stderr := call(t, map[string]string{"KVSLOTS_SERVER": p.url + "/"}, "ready")
	if code != exitDone || stdout != "ready, sync always\n" || stderr != "" {
		t.Errorf("%d, stdout %q, stderr %q", code, stdout, stderr)
	}
	p.stop()
	p.exitCode(t)
	wantCall(t, exitFailed, "", "kvslots: http://[0-9.:]+: connect: connection refused; is --server right, and a gateway running there\\?\n", "ready", "--server", p.url)
}

func TestNotReady(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string // "" means that the gateway does not answer
		stderr string
	}{
		{"draining", 503, `{"status":"draining"}`, ": not ready: draining\n"},
		{"unavailable", 503, `{"status":"unavailable","reason":"no leader"}`, ": not ready: unavailable: no leader\n"},
		{"another server", 200, `hello`, ": not ready: 200 OK; is --server a kvslots gateway\\?\n"},
		{"a page of JSON", 200, `{"hello":1}`, ": not ready: 200 OK; is --server a kvslots gateway\\?\n"},
		{"a redirect", 302, `{}`, ": not ready: 302 Found; is --server a kvslots gateway\\?\n"},
		{"no answer", 0, "", ": no answer in time; --timeout may be too short\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if c.body == "" {
					<-r.Context().Done()
					return
				}
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			defer server.Close()
			timeout := "10s"
			if c.body == "" {
				timeout = "10ms"
			}
			wantCall(t, exitFailed, "", "kvslots: "+server.URL+c.stderr, "ready", "--server", server.URL, "--timeout", timeout)
		})
	}
}

func TestReadyUsage(t *testing.T) {
	code, _, stderr := call(t, noEnv, "ready", "--server", "ftp://u:hunter2@x")
	if code != exitUsage || strings.Contains(stderr, "hunter2") {
		t.Errorf("%d, %s", code, stderr)
	}
	code, _, stderr = call(t, noEnv, "ready", "--server", "http://u:hunter2@127.0.0.1:1")
	if code != exitFailed || strings.Contains(stderr, "hunter2") {
		t.Errorf("%d, %s", code, stderr)
	}
}
