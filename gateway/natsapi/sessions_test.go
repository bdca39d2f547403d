package natsapi_test

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// openSessions serves sessions over NATS and over HTTP, as one gateway does.
func openSessions(t *testing.T, srv *kvslotstest.Server, pools ops.Pools, sessions ops.Sessions) (*fixture, *httptest.Server) {
	t.Helper()
	turns := gateway.NewTurns()
	d := startService(t, srv, pools, func(c *natsapi.Config) { c.Sessions, c.Turns = sessions, turns })
	gw := gateway.New(gateway.Config{
		Store:   gatewaytest.Ready{},
		Lending: d.lending,
		Dialects: []gateway.Dialect{gateway.NewDflockd(sessions, gateway.DflockdConfig{
			Lending: d.lending, Turns: turns, Logger: d.logs.Logger(),
		})},
	})
	web := httptest.NewServer(gw.Handler())
	t.Cleanup(web.Close)
	return d, web
}

var (
	newSession = regexp.MustCompile(`^200 \{"session_id":"([0-9a-f]{32})","idle_timeout_s":20\}$`)
	newToken   = regexp.MustCompile(`"token":"([0-9a-f]{32})"`)
)

func createSession(t *testing.T, ask over) string {
	t.Helper()
	answer := ask(t, "session.create", "", "", "")
	found := newSession.FindStringSubmatch(answer)
	if found == nil {
		t.Fatalf("create: %s", answer)
	}
	return found[1]
}

// Without Sessions there is no service for them.
func TestWithoutSessions(t *testing.T) {
	srv, store := openStore(t)
	d := startService(t, srv, store)
	if _, err := d.nc.RequestWithContext(t.Context(), "kvslots.session.create", nil); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("got %v", err)
	}
}

// If a client is killed while it waits for a lock, the next in line gets the lock at once,
// not after the ttl.
func TestSessionsRequesterKilled(t *testing.T) {
	srv, store := openStore(t)
	d, _ := openSessions(t, srv, store, store)
	ask := sessionsOverNATS(d)
	a, b, c := createSession(t, ask), createSession(t, ask), createSession(t, ask)
	for _, how := range []string{"acquire", "wait"} {
		t.Run(how, func(t *testing.T) {
			for range 20 {
				held := newToken.FindStringSubmatch(ask(t, "lock.acquire", a, "k", `{"acquire_timeout_s":0,"lease_ttl_s":600}`))
				body := `{"acquire_timeout_s":60,"lease_ttl_s":600}`
				if how == "wait" {
					ask(t, "lock.enqueue", b, "k", `{"lease_ttl_s":600}`)
					body = `{"timeout_s":60}`
				}
				dead := d.send(t, "kvslots.lock."+how, addressed(t, "lock."+how, b, "k", body), nil)
				d.waitForLine(t, store, "k", 1)
				next := d.send(t, "kvslots.lock.acquire", addressed(t, "lock.acquire", c, "k", `{"acquire_timeout_s":60}`), nil)
				d.waitForLine(t, store, "k", 2)
				dead.kill()
				gatewaytest.Eventually(t, "the server knows", func() bool { return !dead.isHeard(srv) })
				ask(t, "lock.release", a, "k", `{"token":"`+held[1]+`"}`)
				m := next.answer(t)
				token := newToken.FindStringSubmatch(string(m.Data))
				if token == nil {
					t.Fatalf("the next got %s", m.Data)
				}
				ask(t, "lock.release", c, "k", `{"token":"`+token[1]+`"}`)
				next.nc.Close()
				dead.nc.Close()
				d.free(t, store, "k")
			}
		})
	}
}

// A client that is gone when its enqueue is granted at once does not keep the lock.
func TestGrantsWithoutReceiver(t *testing.T) {
	srv, store := openStore(t)
	d, _ := openSessions(t, srv, store, store)
	s := createSession(t, sessionsOverNATS(d))
	body := []byte(addressed(t, "lock.enqueue", s, "k", `{"lease_ttl_s":600}`))
	for _, op := range []string{"enqueue", "acquire", "wait"} {
		kvslotstest.Must(t, d.nc.Publish("kvslots.lock."+op, body))
	}
	kvslotstest.Must(t, d.nc.PublishRequest("kvslots.lock.enqueue", d.nc.NewInbox(), body))
	// The session's next request is served after all of them.
	if got := sessionsOverNATS(d)(t, "lock.acquire", s, "other", `{"acquire_timeout_s":0}`); !strings.HasPrefix(got, "200") {
		t.Error(got)
	}
	d.free(t, store, "k")
}

func TestCancelOfSessions(t *testing.T) {
	srv, store := openStore(t)
	d, _ := openSessions(t, srv, store, store)
	ask := sessionsOverNATS(d)
	a, b := createSession(t, ask), createSession(t, ask)
	ask(t, "lock.acquire", a, "k", `{"acquire_timeout_s":0,"lease_ttl_s":600}`)
	for i, op := range []string{"acquire", "wait", "acquire"} {
		body := `{"acquire_timeout_s":60}`
		if op == "wait" {
			ask(t, "lock.enqueue", b, "k", "")
			body = `{"timeout_s":60}`
		}
		name := fmt.Sprint("name", i)
		answered := make(chan string, 1)
		go func() {
			code, answer := d.ask(t, "lock."+op, addressed(t, "lock."+op, b, "k", body), wire.RequestHeader, name)
			answered <- code + " " + answer
		}()
		if op == "acquire" {
			d.waitForLine(t, store, "k", 1)
		}
		got := ""
		gatewaytest.Eventually(t, "it is cancelled", func() bool { // a cancellation that overtakes its request is forgotten
			cancel(t, d.nc, name)
			select {
			case got = <-answered:
			default:
			}
			return got != ""
		})
		if got != `408 {"error":"client_canceled","detail":"the client went away"}` {
			t.Errorf("%s got %s", op, got)
		}
		d.waitForLine(t, store, "k", 0)
	}

	// A grant that is out already is taken back.
	d.ask(t, "lock.acquire", addressed(t, "lock.acquire", b, "late", `{"acquire_timeout_s":0,"lease_ttl_s":600}`), wire.RequestHeader, "late")
	cancel(t, d.nc, "late")
	d.free(t, store, "late")
	if strings.Contains(d.logs.String(), "failed") {
		t.Errorf("logged:\n%s", d.logs)
	}
}
