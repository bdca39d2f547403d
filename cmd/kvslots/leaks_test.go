package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	natsclient "github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway/openapitest"
	"github.com/kvslots/kvslots/kvslots/subjects"
)

// secrets are texts that must not appear where other people may read.
type secrets struct {
	known map[string]bool
	forms map[string][]byte // by a description that is safe to print
}

func newSecrets() *secrets { return &secrets{map[string]bool{}, map[string][]byte{}} }

// add adds a secret of a kind in all forms in which it may appear.
func (s *secrets) add(kind, text string) {
	if text == "" || s.known[text] {
		return
	}
	s.known[text] = true
	s.addForm(kind+" "+text, []byte(text))
	s.addForm(kind+" "+text+" in capitals", []byte(strings.ToUpper(text)))
	s.addEncoded(kind+" "+text, []byte(text))
	if id, err := uuid.Parse(text); err == nil {
		s.addForm(kind+" "+text+" in binary", id[:])
		s.addEncoded(kind+" "+text+" from binary", id[:])
	}
}

// addEncoded adds data in hexadecimal, and in base64 at each of the three offsets at which
// it may stand in a longer text.
func (s *secrets) addEncoded(name string, data []byte) {
	s.addForm(name+" in hex", []byte(hex.EncodeToString(data)))
	for offset := range 3 {
		padded := append(make([]byte, offset), data...)
		whole := len(padded) / 3 * 3
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			text := encoding.EncodeToString(padded[:whole])
			if offset > 0 {
				text = text[4:] // this group holds bytes of what stands before
			}
			s.addForm(name+" in base64", []byte(text))
		}
	}
}

func (s *secrets) addForm(name string, form []byte) {
	for s.forms[name] != nil && !bytes.Equal(s.forms[name], form) {
		name += "'"
	}
	s.forms[name] = form
}

var (
	secretText = regexp.MustCompile(`\b(?:[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|[0-9a-f]{32})\b`)
	publicText = regexp.MustCompile(`"(owner|hash)":"[^"]*"|/v1/pools/[0-9a-f]{32}|(hash|pool|holders|line|evict|pause|resume) [0-9a-f]{32}|[0-9a-f]{32} +(pool|lock|semaphore)\b`) // the owner of a lock of Forrst, and hashes of pools: no secrets
)

// learn adds what is a secret in a request or an answer: ids of pools, leases and
// sessions, and tokens.
func (s *secrets) learn(text string) {
	for _, secret := range secretText.FindAllString(publicText.ReplaceAllString(text, ""), -1) {
		s.add("id", secret)
	}
}

// wantNone checks that a text holds no secret.
func (s *secrets) wantNone(t *testing.T, where string, text []byte) {
	t.Helper()
	for name, form := range s.forms {
		if at := bytes.Index(text, form); at >= 0 {
			t.Errorf("%s holds %s: %q", where, name, text[max(0, at-80):min(len(text), at+80)])
		}
	}
}

// wantNoneOf checks a gateway's log, its metrics and its data directory. The data
// directory is read while the gateway runs: what it removes later stands there now.
func (s *secrets) wantNoneOf(t *testing.T, p *program, token, dataDir string) {
	t.Helper()
	s.wantNone(t, "the log", []byte(p.logs.String()))
	header := http.Header{"Authorization": {"Bearer " + token}}
	for _, path := range []string{"/metrics", "/v1/stats", "/ready"} {
		code, _, text := p.askWith(t, header, "GET", path, "")
		if code != http.StatusOK {
			t.Errorf("%s: %d", path, code)
		}
		s.wantNone(t, path, []byte(text))
	}
	read := 0
	err := filepath.WalkDir(dataDir, func(name string, entry fs.DirEntry, err error) error {
		if os.IsNotExist(err) || err == nil && !entry.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			return nil // nats-server has removed it meanwhile
		}
		read += len(content)
		s.wantNone(t, strings.TrimPrefix(name, dataDir), content)
		s.wantNone(t, "the name of a file", []byte(name))
		return err
	})
	if err != nil || read == 0 {
		t.Errorf("read %d bytes of the data directory: %v", read, err)
	}
}

// No secret is in the log at level debug, in the metrics, in the statistics or on disk,
// whichever route or subject used it (TestSecretsOfCommands has the commands), and whether it was right.
func TestSecrets(t *testing.T) {
	s, dir := newSecrets(), t.TempDir()
	fresh := func(kind string) string {
		text := uuid.NewString()
		s.add(kind, text)
		return text
	}
	token, password, functions := fresh("auth token"), fresh("NATS password"), fresh("password of functions")
	p := startServe(t, map[string]string{
		"KVSLOTS_AUTH_TOKEN": token, "KVSLOTS_NATS_PASSWORD": password, "KVSLOTS_FORRST_FN_PASSWORD": functions,
	}, "--data-dir", dir, "--nats-addr", "127.0.0.1:0", "--nats-user", "clients", "--forrst-fn-user", "functions", "--log-level", "debug")
	headers := make(chan natsclient.Header, 10)
	serveFunction(t, p.natsURL(t), "f", func(m *natsclient.Msg) {
		headers <- m.Header
		done(m)
	}, natsclient.UserInfo("functions", functions))

	g := &guest{t, p, s, http.Header{"Authorization": {"Bearer " + token}, "X-Request-Id": {"seen-1"}, "Traceparent": {traceparent}}}
	g.useRoutes(fresh)
	g.borrow(fresh("pool"))
	g.lock()
	g.ask("POST", "/rpc", rpc("f", "{}", lock30))
	wantTrace(t, <-headers)
	nc := connectNATS(t, p.natsURL(t), natsclient.UserInfo("clients", password))
	g.useSubjects(nc, fresh("pool"))
	wantTrace(t, <-headers)
	if _, err := natsclient.Connect(p.natsURL(t), natsclient.UserInfo("clients", fresh("wrong password"))); err == nil {
		t.Error("a wrong password was accepted")
	}
	s.wantNoneOf(t, p, token, dir)
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

// guest uses a gateway, and remembers the secrets that it sends and gets.
type guest struct {
	t      *testing.T
	p      *program
	s      *secrets
	header http.Header
}

func (g *guest) ask(method, path, body string) (answer struct {
	Lease   string
	Token   string
	Session string `json:"session_id"`
}) {
	g.t.Helper()
	_, _, text := g.p.askWith(g.t, g.header, method, path, body)
	g.s.learn(path + body + text)
	_ = json.Unmarshal([]byte(text), &answer)
	return answer
}

// useRoutes asks for every route with secrets that are wrong, with the right and with
// a wrong token.
func (g *guest) useRoutes(fresh func(kind string) string) {
	for _, operation := range openapitest.Operations(g.t) {
		method, path, _ := strings.Cut(operation, " ")
		for _, token := range g.header["Authorization"] {
			for _, authorization := range []string{token, "Bearer " + fresh("wrong token")} {
				body := `{"count":1,"ttl":1,"lease":"` + fresh("wrong lease") + `","token":"` + strings.ReplaceAll(fresh("wrong token"), "-", "") + `"}`
				path := strings.NewReplacer("{id}", fresh("wrong id"), "{key}", "deploy").Replace(path)
				r, err := http.NewRequestWithContext(g.t.Context(), method, g.p.url+path, strings.NewReader(body))
				if err != nil {
					g.t.Fatal(err)
				}
				r.Header = http.Header{"Authorization": {authorization}, "X-Dflockd-Session": {fresh("wrong session")}}
				g.s.learn(body)
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
	if !g.s.known[lease] || lease == "" {
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
	if !g.s.known[session] || !g.s.known[token] {
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
		g.s.learn(body + string(answer.Data))
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

// A secret is found in each form, wherever it stands.
func TestSecretForms(t *testing.T) {
	s := newSecrets()
	id := uuid.New()
	s.add("id", id.String())
	found := func(text string) bool {
		for _, form := range s.forms {
			if bytes.Contains([]byte(text), form) {
				return true
			}
		}
		return false
	}
	for _, data := range []string{id.String(), strings.ToUpper(id.String()), string(id[:])} {
		for _, before := range []string{"", "a", "ab", "abc"} {
			whole := before + data + "z"
			for name, text := range map[string]string{
				"text": whole, "hex": hex.EncodeToString([]byte(whole)),
				"base64": base64.StdEncoding.EncodeToString([]byte(whole)), "base64 for URLs": base64.RawURLEncoding.EncodeToString([]byte(whole)),
			} {
				if data == strings.ToUpper(id.String()) && name != "text" {
					continue
				}
				if !found(text) {
					t.Errorf("%q is not found as %s", whole, name)
				}
			}
		}
	}
	if found(uuid.NewString()) {
		t.Error("another id is found")
	}
}
