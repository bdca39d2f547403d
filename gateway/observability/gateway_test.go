package observability

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// gateway is kvslots serve in a process of its own.
type gateway struct {
	url     string // of HTTP
	nats    string // of its NATS listener
	session string // of requests to /v1; "" means none
}

// startGateway builds kvslots and starts it on ports that the kernel picks. It ends with the
// test.
func startGateway(t *testing.T) *gateway {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "kvslots")
	build := exec.Command("go", "build", "-o", binary, "./cmd/kvslots")
	build.Dir = "../.."
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	process := exec.Command(binary, "serve", "--http-addr", "127.0.0.1:0", "--nats-addr", "127.0.0.1:0", "--tcp-addr", "127.0.0.1:0", "--data-dir", t.TempDir())
	log, err := process.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	drained := make(chan struct{})
	t.Cleanup(func() {
		_ = process.Process.Kill()
		<-drained
		_ = process.Wait() // it was killed
	})
	listening := make(chan gateway, 1)
	go func() {
		defer close(drained)
		defer close(listening)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			t.Log(lines.Text())
			var line struct{ Message, HTTP, NATS string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "listening" {
				listening <- gateway{url: "http://" + line.HTTP, nats: line.NATS}
			}
		}
	}()
	g, ok := <-listening
	if !ok {
		t.Fatal("the gateway has ended")
	}
	return &g
}

func (g *gateway) ask(t *testing.T, method, path, body string) (code int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, g.url+path, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	if g.session != "" {
		r.Header.Set("X-Dflockd-Session", g.session)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, string(text)
}

func (g *gateway) want(t *testing.T, method, path, body string, code int, answer string) {
	t.Helper()
	if gotCode, got := g.ask(t, method, path, body); gotCode != code || !strings.Contains(got, answer) {
		t.Errorf("%s %s %s\n got %d %s\nwant %d %s", method, path, body, gotCode, got, code, answer)
	}
}

// eventually waits until the answer to GET contains a text.
func (g *gateway) eventually(t *testing.T, path, text string) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !t.Failed(); {
		_, answer := g.ask(t, "GET", path, "")
		if strings.Contains(answer, text) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %s has no %s", path, answer, text)
		}
		<-time.After(10 * time.Millisecond)
	}
	t.FailNow()
}

// rpc is a call of a function that does not exist.
const rpc = `{"protocol":{"name":"forrst","version":"0.1.0"},"id":"r","call":{"function":"none","arguments":{}},` +
	`"extensions":[{"urn":"urn:forrst:ext:atomicLock","options":{"key":"k","ttl":{"value":30,"unit":"second"}}}]}`

// load uses every API of a gateway, so that each has grants, refusals, waits with and
// without a grant, renewals, returns, expiries and errors.
func (g *gateway) load(t *testing.T) {
	t.Helper()
	const pool = "/l/5f6f3a44-7d0c-4b5e-8a55-2d4a5f7f9b10"
	ok := func(method, path, body string) (answer struct {
		Lease   string
		Token   string
		Session string `json:"session_id"`
	}) {
		t.Helper()
		code, text := g.ask(t, method, path, body)
		if code >= http.StatusBadRequest || text != "" && json.Unmarshal([]byte(text), &answer) != nil {
			t.Fatalf("%s %s: %d %s", method, path, code, text)
		}
		return answer
	}
	ok("PUT", pool, `{"count":1}`)
	lease := ok("POST", pool+"/borrow", `{"ttl":60}`).Lease
	ok("POST", pool+"/renew", `{"ttl":60,"lease":"`+lease+`"}`)
	g.want(t, "POST", pool+"/borrow", `{"ttl":60}`, http.StatusConflict, "no resource")
	g.want(t, "POST", pool+"/borrow", `{"ttl":60,"wait":1}`, http.StatusConflict, "no resource")
	waited := make(chan string, 1)
	go func() {
		_, text := g.ask(t, "POST", pool+"/borrow", `{"ttl":1,"wait":60}`)
		waited <- text
	}()
	g.eventually(t, pool, `"waiting":1`)
	ok("POST", pool+"/return", `{"lease":"`+lease+`"}`)
	if text := <-waited; !strings.Contains(text, "lease") {
		t.Fatal(text)
	}
	g.eventually(t, pool, `"in_use":0`) // the lease has expired

	g.session = ok("POST", "/v1/sessions", "").Session
	g.want(t, "POST", "/v1/locks/deploy", `{"acquire_timeout_s":0}`, http.StatusOK, "")
	g.want(t, "POST", "/rpc", rpc, http.StatusNotFound, "FUNCTION_NOT_FOUND")
	nc, err := nats.Connect(g.nats)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.RequestWithContext(t.Context(), "kvslots.borrow", []byte(`{"id":"`+strings.TrimPrefix(pool, "/l/")+`","ttl":1}`)); err != nil {
		t.Fatal(err)
	}
	ok("DELETE", pool, "")
	g.want(t, "GET", "/none", "", http.StatusNotFound, "")
}
