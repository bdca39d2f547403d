package main

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	natsclient "github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway/openapitest"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/kvslots/subjects"
)

var secretText = regexp.MustCompile(`\b(?:[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|[0-9a-f]{32})\b`)

// publicNames are hashes of pools, and names of locks, in statistics.
var publicNames = regexp.MustCompile(`"(pool|key)":"[^"]*"`)

// searchAnswers looks for secrets in what a gateway shows to those who have its token.
func (p *program) searchAnswers(t *testing.T, token string) {
	t.Helper()
	for _, path := range []string{"/metrics", "/v1/stats", "/ready"} {
		code, _, text := p.askWith(t, http.Header{"Authorization": {"Bearer " + token}}, "GET", path, "")
		if code != http.StatusOK {
			t.Errorf("%s: %d", path, code)
		}
		logtest.Search(path, publicNames.ReplaceAll([]byte(text), nil))
	}
}

// No secret is in the log at level debug, in the metrics, in the statistics or on disk,
// whichever route or subject used it (TestSecretsOfCommands has the commands), and whether it was right:
// package logtest looks for what all of them look like.
func TestSecrets(t *testing.T) {
	token, password := uuid.NewString(), uuid.NewString()
	functions, key, _ := newNkey(t)
	p := startServe(t, map[string]string{
		"KVSLOTS_AUTH_TOKEN": token, "KVSLOTS_NATS_PASSWORD": password,
	}, "--data-dir", t.TempDir(), "--nats-addr", "127.0.0.1:0", "--nats-user", "clients", "--forrst-fn-nkeys", key, "--log-level", "debug")
	headers := make(chan natsclient.Header, 10)
	serveFunction(t, p.natsURL(t), "f", func(m *natsclient.Msg) {
		headers <- m.Header
		done(m)
	}, natsclient.Nkey(key, functions.Sign))

	g := &guest{t, p, http.Header{"Authorization": {"Bearer " + token}, "X-Request-Id": {"seen-1"}, "Traceparent": {traceparent}}}
	g.useRoutes()
	g.borrow(uuid.NewString())
	g.lock()
	g.ask("POST", "/rpc", rpc("f", "{}", lock30))
	wantTrace(t, <-headers)
	nc := connectNATS(t, p.natsURL(t), natsclient.UserInfo("clients", password))
	g.useSubjects(nc, uuid.NewString())
	wantTrace(t, <-headers)
	if _, err := natsclient.Connect(p.natsURL(t), natsclient.UserInfo("clients", uuid.NewString())); err == nil {
		t.Error("a wrong password was accepted")
	}
	p.searchAnswers(t, token)
	for _, text := range []string{`"route":"/l/{id}/borrow"`, `"request_id":"seen-1"`, `"trace_id":"` + traceparent[3:35] + `"`, `"subject":"` + subjects.PoolBorrow + `"`} {
		if !strings.Contains(p.logs.String(), text) {
			t.Errorf("the log lacks %s", text)
		}
	}
}

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// wantTrace checks that a function got the ids of the request that called it.
func wantTrace(t *testing.T, header natsclient.Header) {
	t.Helper()
	if header.Get("X-Request-Id") != "seen-1" || header.Get("traceparent") != traceparent {
		t.Errorf("the function got %v", header)
	}
}

// guest uses a gateway.
type guest struct {
	t      *testing.T
	p      *program
	header http.Header
}

func (g *guest) ask(method, path, body string) (answer struct {
	Lease   string
	Token   string
	Session string `json:"session_id"`
}) {
	g.t.Helper()
	_, _, text := g.p.askWith(g.t, g.header, method, path, body)
	_ = json.Unmarshal([]byte(text), &answer)
	return answer
}

// useRoutes asks for every route with secrets that are wrong, with the right and with
// a wrong token.
func (g *guest) useRoutes() {
	for _, operation := range openapitest.Operations(g.t) {
		method, path, _ := strings.Cut(operation, " ")
		for _, token := range g.header["Authorization"] {
			for _, authorization := range []string{token, "Bearer " + uuid.NewString()} {
				body := `{"count":1,"ttl":1,"lease":"` + uuid.NewString() + `","token":"` + strings.ReplaceAll(uuid.NewString(), "-", "") + `"}`
				path := strings.NewReplacer("{id}", uuid.NewString(), "{key}", "deploy").Replace(path)
				r, err := http.NewRequestWithContext(g.t.Context(), method, g.p.url+path, strings.NewReader(body))
				if err != nil {
					g.t.Fatal(err)
				}
				r.Header = http.Header{"Authorization": {authorization}, "X-Dflockd-Session": {uuid.NewString()}}
				resp, err := http.DefaultTransport.RoundTrip(r)
				if err != nil {
					g.t.Fatal(err)
				}
				resp.Body.Close()
			}
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// borrow uses a pool, and lets a lease expire and a borrower wait.
func (g *guest) borrow(pool string) {
	path := "/l/" + pool
	g.ask("PUT", path, `{"count":1}`)
	lease := g.ask("POST", path+"/borrow", `{"ttl":1}`).Lease
	g.ask("POST", path+"/borrow", `{"ttl":60,"wait":5}`)
	g.ask("POST", path+"/renew", `{"ttl":60,"lease":"`+lease+`"}`)
	g.ask("POST", path+"/return", `{"lease":"`+lease+`"}`)
	if lease == "" {
		g.t.Error("no lease was seen")
	}
}

// lock uses a session and a lock.
func (g *guest) lock() {
	session := g.ask("POST", "/v1/sessions", "").Session
	g.header.Set("X-Dflockd-Session", session)
	defer g.header.Del("X-Dflockd-Session")
	token := g.ask("POST", "/v1/locks/deploy", `{"acquire_timeout_s":0}`).Token
	g.ask("POST", "/v1/locks/deploy/renew", `{"token":"`+token+`"}`)
	g.ask("POST", "/v1/sessions/"+session+"/ping", "")
	if session == "" || token == "" {
		g.t.Errorf("session %q or token %q was not seen", session, token)
	}
}

// useSubjects asks for each operation over NATS, and calls a function.
func (g *guest) useSubjects(nc *natsclient.Conn, pool string) {
	ask := func(subject, body string) string {
		m := natsclient.NewMsg(subject)
		m.Data, m.Header = []byte(body), natsclient.Header{"X-Request-Id": {"seen-1"}, "traceparent": {traceparent}}
		answer, err := nc.RequestMsgWithContext(g.t.Context(), m)
		if err != nil {
			g.t.Fatal(subject, err)
		}
		return string(answer.Data)
	}
	id := `"id":"` + pool + `"`
	ask(subjects.PoolRegister, `{`+id+`,"count":1}`)
	lease := ask(subjects.PoolBorrow, `{`+id+`,"ttl":60}`)
	ask(subjects.PoolReturn, `{`+id+`,"lease":"`+secretText.FindString(lease)+`"}`)
	ask(subjects.PoolReturn, `{`+id+`,"lease":"`+secretText.FindString(lease)+`","ttl":`)
	ask(subjects.PoolInspect, `{`+id+`}`)
	session := secretText.FindString(ask(subjects.SessionCreate, ``))
	ask(subjects.Of(subjects.Lock, subjects.Acquire), `{"session":"`+session+`","key":"k","acquire_timeout_s":0}`)
	ask(subjects.SessionPing, `{"session":"`+session+`"}`)
	ask(subjects.RPC, rpc("f", "{}", lock30))
	ask(subjects.PoolDelete, `{`+id+`}`)
	ask("$SRV.STATS.kvslots", "")
}
