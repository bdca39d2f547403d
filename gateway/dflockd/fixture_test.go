package dflockd_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/natsembed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(logtest.NoSecrets(m)) }

// options are the configurations that tests may change.
type options struct {
	dialect gateway.DflockdConfig
	gateway *gateway.Config
}

// fixture is a gateway with the dflockd API.
type fixture struct{ *gatewaytest.Gateway }

func startServer(t *testing.T, dir string) *natsembed.Server {
	t.Helper()
	return gatewaytest.StartServer(t, natsembed.Config{DataDir: dir})
}

// openPeer opens a store on a server. The store is closed when the test ends, or when
// closeIt is called.
func openPeer(t *testing.T, srv *natsembed.Server, cfg kvslots.Config) (store *kvslots.Store, closeIt func()) {
	t.Helper()
	return gatewaytest.OpenStore(t, srv.Connect, cfg)
}

// openStore opens a store on a server of its own.
func openStore(t *testing.T, cfg kvslots.Config) *kvslots.Store {
	t.Helper()
	store, _ := openPeer(t, startServer(t, ""), cfg)
	return store
}

// openFixture serves sessions until the test ends.
func openFixture(t *testing.T, sessions ops.Sessions, change ...func(o *options)) *fixture {
	t.Helper()
	return &fixture{gatewaytest.Open(t, func(cfg *gateway.Config) {
		o := options{dialect: gateway.DflockdConfig{Lending: cfg.Lending, Turns: gateway.NewTurns(), Logger: cfg.Logger}, gateway: cfg}
		for _, c := range change {
			c(&o)
		}
		cfg.Dialects = []gateway.Dialect{gateway.NewDflockd(sessions, o.dialect)}
	})}
}

// do sends a request in the name of a session, or of none. It may be called from any
// goroutine.
func (d *fixture) do(t *testing.T, session, method, path, body string, header ...string) (int, string, http.Header) {
	t.Helper()
	if session != "" {
		header = append(header, wire.SessionHeader, session)
	}
	return d.Do(t, method, path, body, header...)
}

// want sends a request, and compares the status, and the whole body with a regular
// expression.
func (d *fixture) want(t *testing.T, session, method, path, body string, code int, answer string) {
	t.Helper()
	gotCode, got, header := d.do(t, session, method, path, body)
	if gotCode != code || !regexp.MustCompile("^(?:"+answer+")$").MatchString(got) {
		t.Errorf("%s %s %s\n got %d %s\nwant %d %s", method, path, body, gotCode, got, code, answer)
	}
	if cache := header.Get("Cache-Control"); cache != "no-store" {
		t.Errorf("%s %s: Cache-Control %q", method, path, cache)
	}
}

// refused is the body of an error.
func refused(code string) string { return `\{"error":"` + code + `","detail":"[^"]+"\}` }

const (
	timedOut = `\{"status":"timeout"\}`
	queued   = `\{"status":"queued"\}`
)

// session creates a session.
func (d *fixture) session(t *testing.T) string {
	t.Helper()
	code, body, _ := d.do(t, "", "POST", "/v1/sessions", "")
	var answer struct {
		SessionID string `json:"session_id"`
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || code != 200 {
		t.Fatalf("create: %d %s", code, body)
	}
	return answer.SessionID
}

// grant is the answer to a request that was granted.
type grant struct {
	Status   string `json:"status"`
	Token    string `json:"token"`
	LeaseTTL int    `json:"lease_ttl_s"`
}

// grant sends a request that must be granted.
func (d *fixture) grant(t *testing.T, session, path, body string) (g grant) {
	t.Helper()
	code, answer, _ := d.do(t, session, "POST", path, body)
	if err := json.Unmarshal([]byte(answer), &g); err != nil || code != 200 || len(g.Token) != 32 {
		t.Errorf("%s %s: %d %s", path, body, code, answer)
	}
	return g
}

// later sends a request, and returns a channel that receives the answer.
func (d *fixture) later(t *testing.T, session, method, path, body string) <-chan string {
	t.Helper()
	answered := make(chan string, 1)
	go func() {
		code, answer, _ := d.do(t, session, method, path, body)
		answered <- http.StatusText(code) + " " + answer
	}()
	return answered
}

// stats are the fields for which tests wait.
type stats struct {
	Connections int
	Locks       []struct {
		Key     string
		Owner   uint64 `json:"owner_conn_id"`
		Waiters int
		Fence   uint64
	}
	Semaphores []struct {
		Key              string
		Limit            int
		Holders, Waiters int
	}
	Pools      []struct{ Pool string }
	PoolsAfter string `json:"pools_after"`
}

func (d *fixture) stats(t *testing.T) stats {
	t.Helper()
	return d.statsOf(t, "")
}

// statsOf gets a page of the statistics.
func (d *fixture) statsOf(t *testing.T, query string) (s stats) {
	t.Helper()
	code, body, _ := d.do(t, "", "GET", "/v1/stats"+query, "")
	if err := json.Unmarshal([]byte(body), &s); err != nil || code != 200 {
		t.Errorf("stats: %d %s, %v", code, body, err)
	}
	return s
}

// waiters waits until n sessions are in line for a lock.
func (d *fixture) waiters(t *testing.T, key string, n int) {
	t.Helper()
	gatewaytest.Eventually(t, "the line has another length", func() bool {
		for _, lock := range d.stats(t).Locks {
			if lock.Key == key {
				return lock.Waiters == n
			}
		}
		return n == 0
	})
}

// free waits until no session holds or waits for a lock.
func (d *fixture) free(t *testing.T, key string) {
	t.Helper()
	gatewaytest.Eventually(t, "the lock is free", func() bool {
		for _, lock := range d.stats(t).Locks {
			if lock.Key == key {
				return false
			}
		}
		return true
	})
}

// hangUp sends a request on a new connection, and returns a function that hangs up.
func (d *fixture) hangUp(t *testing.T, session, path, body string) (now func()) {
	t.Helper()
	conn := d.Dial(t)
	r, err := http.NewRequest("POST", "http://"+d.Addr+path, strings.NewReader(body))
	kvslotstest.Must(t, err)
	r.Header.Set(wire.SessionHeader, session)
	kvslotstest.Must(t, r.Write(conn))
	return func() { conn.Close() }
}
