package natsapi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// Clients over HTTP and over NATS wait for a key in one line.
func TestOneLine(t *testing.T) {
	srv, store := openStore(t)
	d, web := openSessions(t, srv, store, store)
	transports := []over{sessionsOverNATS(d), sessionsOverHTTP(web)}
	holder := createSession(t, transports[0])
	answer := transports[0](t, "lock.acquire", holder, "k", `{"acquire_timeout_s":0}`)
	answered := make(chan string, 10)
	var sessions []string
	for i := range 10 {
		s := createSession(t, transports[i%2])
		sessions = append(sessions, s)
		go func() {
			answer := transports[i%2](t, "lock.acquire", s, "k", `{"acquire_timeout_s":60}`)
			answered <- fmt.Sprint(i, " ", answer)
		}()
		d.waitForLine(t, store, "k", i+1)
	}
	for i := range 10 {
		token := newToken.FindStringSubmatch(answer)
		if token == nil {
			t.Fatalf("the one before %d got %s", i, answer)
		}
		if got := transports[i%2](t, "lock.release", holder, "k", `{"token":"`+token[1]+`"}`); got != "200 {}" {
			t.Fatalf("release: %s", got)
		}
		answer = <-answered
		if !strings.HasPrefix(answer, fmt.Sprint(i, " 200")) {
			t.Fatalf("instead of %d the lock has: %s", i, answer)
		}
		holder = sessions[i]
	}
}

// waitForLine waits until n sessions wait for a key.
func (d *fixture) waitForLine(t *testing.T, store *kvslots.Store, key string, n int) {
	t.Helper()
	gatewaytest.Eventually(t, fmt.Sprintf("%d wait for %s", n, key), func() bool {
		stats, err := store.Stats(t.Context())
		kvslotstest.Must(t, err)
		for _, name := range stats.Names {
			if name.Key == key {
				return len(name.Waiters) == n
			}
		}
		return n == 0
	})
}

// free waits until no session holds or waits for a key.
func (d *fixture) free(t *testing.T, store *kvslots.Store, key string) {
	t.Helper()
	gatewaytest.Eventually(t, key+" is free", func() bool {
		stats, err := store.Stats(t.Context())
		kvslotstest.Must(t, err)
		for _, name := range stats.Names {
			if name.Key == key {
				return false
			}
		}
		return true
	})
}

// Requests of one session for one key over HTTP and over NATS are serialized.
func TestTurnsAcrossTransports(t *testing.T) {
	srv, store := openStore(t)
	d, web := openSessions(t, srv, store, store)
	overNATS, overHTTP := sessionsOverNATS(d), sessionsOverHTTP(web)
	a, b := createSession(t, overNATS), createSession(t, overHTTP)
	held := newToken.FindStringSubmatch(overNATS(t, "lock.acquire", a, "k", `{"acquire_timeout_s":0}`))
	first, second := make(chan string, 1), make(chan string, 1)
	go func() { first <- overHTTP(t, "lock.acquire", b, "k", `{"acquire_timeout_s":60}`) }()
	d.waitForLine(t, store, "k", 1)
	go func() { second <- overNATS(t, "lock.enqueue", b, "k", "") }()
	if got := overNATS(t, "lock.acquire", b, "free", `{"acquire_timeout_s":0}`); !strings.HasPrefix(got, `200 {"status":"ok"`) {
		t.Errorf("another key: %s", got)
	}
	if got := overNATS(t, "session.ping", b, "", ""); got != "200 {}" {
		t.Errorf("ping: %s", got)
	}
	select {
	case got := <-second:
		t.Fatalf("the second overtook the first: %s", got)
	case <-time.After(50 * time.Millisecond):
	}
	overNATS(t, "lock.release", a, "k", `{"token":"`+held[1]+`"}`)
	if got := <-first; !strings.HasPrefix(got, `200 {"status":"ok"`) {
		t.Errorf("got %s", got)
	}
	if got := <-second; !strings.HasPrefix(got, `200 {"status":"queued"`) {
		t.Errorf("got %s", got)
	}
}
