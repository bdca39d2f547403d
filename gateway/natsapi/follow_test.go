package natsapi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

const anyToken = "00000000000000000123456789abcdef"

// follow sends a request that follows what body names, and waits until the gateway has it.
func (d *fixture) follow(t *testing.T, op, body string) *requester {
	t.Helper()
	name := strings.ReplaceAll(op, ".", "-")
	_, _, before := d.statsOf(t, name)
	r := d.send(t, "kvslots."+op, body, nil)
	gatewaytest.Eventually(t, "the request is open", func() bool {
		_, _, open := d.statsOf(t, name)
		return open == before+1
	})
	return r
}

func (r *requester) want(t *testing.T, code, answer string) {
	t.Helper()
	if m := r.answer(t); status(m) != code || string(m.Data) != answer {
		t.Errorf("got %s %s, want %s %s", status(m), m.Data, code, answer)
	}
}

func ofLease(lease fmt.Stringer, fields string) string {
	return `{"id":"` + poolA + `","lease":"` + lease.String() + `"` + fields + `}`
}

func withStats(c *natsapi.Config) { c.VerbsPerSecond = 1e9 }

// What is followed is answered with the cause of its end, by another gateway than the one that
// ends it, too.
func TestFollowing(t *testing.T) {
	srv, store := openStore(t)
	other := openPeer(t, srv)
	d := startService(t, srv, store, withSessions(store), withStats)
	d.register(t, "2")
	pool := uuid.MustParse(poolA)
	a, b := d.borrow(t, `"ttl":600`), d.borrow(t, `"ttl":600`)
	returned, deleted := d.follow(t, "follow", ofLease(a.Lease, `,"wait":60`)), d.follow(t, "follow", ofLease(b.Lease, `,"wait":60`))
	d.want(t, "follow", ofLease(b.Lease, `,"wait":1`), "200", `{"ended":false}`)
	kvslotstest.Must(t, kvslotstest.Err(other.Return(t.Context(), pool, a.Lease)))
	returned.want(t, "200", `{"ended":true,"cause":"not_held"}`)
	kvslotstest.Must(t, other.Delete(t.Context(), pool))
	deleted.want(t, "200", `{"ended":true,"cause":"no_pool"}`)

	session := createSession(t, sessionsOverNATS(d))
	lock, semaphore := kvslots.Lock("l"), kvslots.Semaphore("s", 2)
	held, err := other.Acquire(t.Context(), session, lock, kvslots.WithTTL(time.Minute), kvslots.WithWait(0))
	kvslotstest.Must(t, err)
	slot, err := other.Acquire(t.Context(), session, semaphore, kvslots.WithTTL(time.Minute), kvslots.WithWait(0))
	kvslotstest.Must(t, err)
	in := func(fields string) string { return `{"session":"` + session + `",` + fields + `"timeout_s":60}` }
	released := d.follow(t, "lock.follow", in(`"key":"l","token":"`+held.Token+`",`))
	ended := d.follow(t, "semaphore.follow", in(`"key":"s","token":"`+slot.Token+`",`))
	gone := d.follow(t, "session.follow", in(""))
	kvslotstest.Must(t, other.Release(t.Context(), session, lock, held.Token))
	released.want(t, "200", `{"ended":true,"cause":"not_held"}`)
	kvslotstest.Must(t, other.EndSession(t.Context(), session))
	for _, r := range []*requester{ended, gone} {
		r.want(t, "200", `{"ended":true,"cause":"session_gone"}`)
	}
	for body, answer := range map[string]string{
		`{"session":"x","timeout_s":1}`:               `410 `,
		`{"session":"` + session + `"}`:               `400 `,
		in(`"key":"l","token":"` + anyToken + `",`):   `400 `,
		`{"timeout_s":60}`:                            `400 `,
		in(`"x":1,`):                                  `400 `,
		`{"session":"` + session + `","timeout_s":0}`: `400 `,
	} {
		if code, _ := d.ask(t, "session.follow", body); code+" " != answer {
			t.Errorf("%s: %s, want %s", body, code, answer)
		}
	}
	for _, body := range []string{ofLease(a.Lease, ""), ofLease(a.Lease, `,"wait":0`), `{"id":"` + poolA + `","wait":1}`} {
		if code, _ := d.ask(t, "follow", body); code != "400" {
			t.Errorf("%s: %s", body, code)
		}
	}
}

// Requests that follow something have a room of their own, and end with the gateway's service.
func TestFollowingIsBounded(t *testing.T) {
	srv, store := openStore(t)
	const size = 2
	d := startService(t, srv, store, withSessions(store), withStats, func(c *natsapi.Config) { c.MaxBorrows = size })
	d.register(t, "1")
	held := d.borrow(t, `"ttl":600`)
	body := ofLease(held.Lease, `,"wait":60`)
	answers := make(chan *nats.Msg, size+1)
	for range size + 1 {
		r := d.send(t, "kvslots.follow", body, nil)
		go func() {
			m, _ := r.answers.NextMsgWithContext(t.Context())
			answers <- m
		}()
	}
	want := func(code, answer string) {
		t.Helper()
		if m := <-answers; m == nil || status(m) != code || string(m.Data) != answer {
			t.Errorf("got %v, want %s %s", m, code, answer)
		}
	}
	want("503", `{"error":"too many requests at once"}`) // one of them
	waiting := d.waiter(t)
	d.waitFor(t, `"waiting":1`)
	if n := d.lending.Open(); n != 1 {
		t.Errorf("%d borrows are open", n)
	}
	d.giveBack(t, held)
	for range size {
		want("200", `{"ended":true,"cause":"not_held"}`)
	}
	waiting.lease(t)
}

// A stopping gateway ends what is followed, whose clients may ask another one.
func TestFollowingEndsWithTheGateway(t *testing.T) {
	srv, store := openStore(t)
	d := startService(t, srv, store, withStats)
	d.register(t, "1")
	body := ofLease(d.borrow(t, `"ttl":600`).Lease, `,"wait":60`)
	following := d.follow(t, "follow", body)
	d.lending.Stop()
	following.want(t, "503", `{"error":"draining"}`)
	d.want(t, "follow", body, "503", `{"error":"draining"}`)
}

// Following does not keep a session alive.
func TestFollowingIsNoUse(t *testing.T) {
	srv, store := openStore(t)
	d := startService(t, srv, store, withSessions(store), withStats)
	session, _, err := store.CreateSession(t.Context(), kvslots.WithIdle(2*time.Second))
	kvslotstest.Must(t, err)
	d.want(t, "session.follow", `{"session":"`+session+`","timeout_s":60}`, "200", `{"ended":true,"cause":"session_gone"}`)
}
