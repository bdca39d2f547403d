package natsapi_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// confirmer sends a request from a connection that can be cut, and says that it will
// confirm.
func (d *door) confirmer(t *testing.T, subject, body string, opts ...nats.Option) *requester {
	t.Helper()
	r := &requester{}
	nc, err := nats.Connect(d.srv.ClientURL(), append(opts, nats.NoReconnect(), nats.SetCustomDialer(r))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	r.nc = nc
	m := nats.NewMsg(subject)
	m.Reply, m.Data = nc.NewInbox(), []byte(body)
	m.Header.Set(wire.ConfirmHeader, "1")
	if r.answers, err = nc.SubscribeSync(m.Reply); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(nc.PublishMsg(m), nc.Flush()); err != nil {
		t.Fatal(err)
	}
	return r
}

// waitingConfirmer stands in line for the pool.
func (d *door) waitingConfirmer(t *testing.T) *requester {
	t.Helper()
	return d.confirmer(t, "kvslots.borrow", `{"id":"`+poolA+`","ttl":600,"wait":60}`)
}

// grant is the answer, which has to be a grant that is to be confirmed.
func (r *requester) grant(t *testing.T) *nats.Msg {
	t.Helper()
	m, err := r.answers.NextMsg(30 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if status(m) != "200" || m.Header.Get(wire.ConfirmHeader) != "1000" {
		t.Fatalf("got %s %s %v", status(m), m.Data, m.Header)
	}
	return m
}

// confirm gives what the confirmation was answered with.
func (r *requester) confirm(t *testing.T, grant *nats.Msg) string {
	t.Helper()
	answer, err := r.nc.Request(grant.Reply, nil, 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return status(answer) + " " + string(answer.Data)
}

const (
	isConfirmed = "200 {}"
	isTooLate   = `404 {"error":"lease not held"}`
)

func leaseOf(t *testing.T, grant *nats.Msg) (lease wire.Lease) {
	t.Helper()
	if err := json.Unmarshal(grant.Data, &lease); err != nil {
		t.Fatal(err)
	}
	return lease
}

func TestConfirmed(t *testing.T) {
	srv, store := openStore(t)
	d := openDoor(t, srv, store)
	d.register(t, "1")
	held := d.borrow(t, `"ttl":600`)
	waiter := d.waitingConfirmer(t)
	d.waitFor(t, `"waiting":1`)
	d.giveBack(t, held)
	grant := waiter.grant(t)
	if got := waiter.confirm(t, grant); got != isConfirmed {
		t.Fatalf("confirmed: %s", got)
	}
	if got := waiter.confirm(t, grant); got != isTooLate {
		t.Errorf("confirmed again: %s", got)
	}
	d.giveBack(t, leaseOf(t, grant)) // it was still held
}

// A requester that is there and does not confirm loses its turn, and is told so if
// it confirms later: it must not believe that it holds what others have.
func TestNotConfirmed(t *testing.T) {
	srv, store := openStore(t)
	d := openDoor(t, srv, store)
	d.register(t, "1")
	held := d.borrow(t, `"ttl":600`)
	silent := d.waitingConfirmer(t)
	d.waitFor(t, `"waiting":1`)
	next := d.waitingConfirmer(t)
	d.waitFor(t, `"waiting":2`)
	d.giveBack(t, held)
	lost := silent.grant(t)
	// Neither another grant's subject nor one with a reply subject to which the
	// gateway does not answer confirms it.
	other := lost.Reply[:strings.LastIndexByte(lost.Reply, '.')] + ".x"
	if got := silent.confirm(t, &nats.Msg{Reply: other}); got != isTooLate {
		t.Errorf("another grant's confirmation: %s", got)
	}
	if err := silent.nc.PublishRequest(lost.Reply, "$KV.kvslots.x", nil); err != nil {
		t.Fatal(err)
	}
	won := next.grant(t)
	if got := next.confirm(t, won); got != isConfirmed {
		t.Fatalf("the next: %s", got)
	}
	if got := silent.confirm(t, lost); got != isTooLate {
		t.Errorf("late: %s", got)
	}
	d.giveBack(t, leaseOf(t, won))
	d.waitFor(t, `"in_use":0,"available":1,"waiting":0`)
	if strings.Contains(d.logs.String(), `"level":"warn","message":"a lease`) {
		t.Errorf("logged:\n%s", d.logs)
	}
}

// The requester is killed at the very moment when its turn comes, which the server
// does not know yet: the next in line gets the slot all the same, every time.
func TestConfirmerKilledWhileWaiting(t *testing.T) {
	srv, store := openStore(t)
	d := openDoor(t, srv, store)
	d.register(t, "1")
	var slowest time.Duration
	const rounds = 100
	for range rounds {
		held := d.borrow(t, `"ttl":600`)
		dead := d.waitingConfirmer(t)
		d.waitFor(t, `"waiting":1`)
		next := d.waitingConfirmer(t)
		d.waitFor(t, `"waiting":2`)
		dead.kill()
		killed := time.Now()
		d.giveBack(t, held)
		grant := next.grant(t)
		if got := next.confirm(t, grant); got != isConfirmed {
			t.Fatalf("the next: %s", got)
		}
		slowest = max(slowest, time.Since(killed))
		d.giveBack(t, leaseOf(t, grant))
		next.nc.Close()
		dead.nc.Close()
	}
	d.waitFor(t, `"in_use":0,"available":1,"waiting":0`)
	t.Logf("the next in line had the slot within %v, %d times of %d", slowest, rounds, rounds)
}

// A requester that dies between the grant and its confirmation holds nothing.
func TestConfirmerKilledWhileItIsGranted(t *testing.T) {
	srv, store := openStore(t)
	d := openDoor(t, srv, store)
	d.register(t, "1")
	for range 10 {
		held := d.borrow(t, `"ttl":600`)
		dead := d.waitingConfirmer(t)
		d.waitFor(t, `"waiting":1`)
		d.giveBack(t, held)
		dead.grant(t)
		dead.kill()
		d.waitFor(t, `"in_use":0,"available":1,"waiting":0`)
		dead.nc.Close()
	}
}

func TestConfirmedLocks(t *testing.T) {
	srv, store := openStore(t)
	d, _ := openSessions(t, srv, store, store)
	ask := sessionsOverNATS(d)
	a, b, c := createSession(t, ask), createSession(t, ask), createSession(t, ask)
	for range 10 {
		held := newToken.FindStringSubmatch(ask(t, "lock.acquire", a, "k", `{"acquire_timeout_s":0,"lease_ttl_s":600}`))
		body := `{"acquire_timeout_s":60,"lease_ttl_s":600}`
		dead := d.confirmer(t, "kvslots.lock.acquire", addressed(t, "lock.acquire", b, "k", body))
		d.waitForLine(t, store, "k", 1)
		next := d.confirmer(t, "kvslots.lock.acquire", addressed(t, "lock.acquire", c, "k", body))
		d.waitForLine(t, store, "k", 2)
		dead.kill()
		ask(t, "lock.release", a, "k", `{"token":"`+held[1]+`"}`)
		grant := next.grant(t)
		if got := next.confirm(t, grant); got != isConfirmed {
			t.Fatalf("the next: %s", got)
		}
		token := newToken.FindStringSubmatch(string(grant.Data))
		if got := ask(t, "lock.release", c, "k", `{"token":"`+token[1]+`"}`); got != "200 {}" {
			t.Errorf("release: %s", got)
		}
		d.free(t, store, "k")
		next.nc.Close()
		dead.nc.Close()
	}
}

// A grant that is cancelled while it is unconfirmed goes back once, and quietly.
func TestCancelledInsteadOfConfirmed(t *testing.T) {
	srv, store := openStore(t)
	d, _ := openSessions(t, srv, store, store)
	ask := sessionsOverNATS(d)
	a, b := createSession(t, ask), createSession(t, ask)
	held := newToken.FindStringSubmatch(ask(t, "lock.acquire", a, "k", `{"acquire_timeout_s":0,"lease_ttl_s":600}`))
	m := nats.NewMsg("kvslots.lock.acquire")
	m.Data = []byte(addressed(t, "lock.acquire", b, "k", `{"acquire_timeout_s":60,"lease_ttl_s":600}`))
	m.Header.Set(wire.ConfirmHeader, "1")
	m.Header.Set(wire.RequestHeader, "named")
	granted := make(chan error, 1)
	go func() {
		_, err := d.nc.RequestMsg(m, 30*time.Second)
		granted <- err
	}()
	d.waitForLine(t, store, "k", 1)
	ask(t, "lock.release", a, "k", `{"token":"`+held[1]+`"}`)
	if err := <-granted; err != nil {
		t.Fatal(err)
	}
	cancel(t, d.nc, "named")
	d.free(t, store, "k")
	// The session's next request is served when the confirmation has timed out.
	if got := ask(t, "lock.acquire", b, "other", `{"acquire_timeout_s":0}`); !strings.HasPrefix(got, "200") {
		t.Error(got)
	}
	if logged := d.logs.String(); strings.Contains(logged, "could not be returned") {
		t.Errorf("logged:\n%s", logged)
	}
}

func TestConfirmHeaderOutOfRange(t *testing.T) {
	srv, store := openStore(t)
	d, _ := openSessions(t, srv, store, store)
	d.register(t, "1")
	for _, value := range []string{"", "0", "true", "2"} {
		code, body := d.ask(t, "borrow", `{"id":"`+poolA+`","ttl":60}`, wire.ConfirmHeader, value)
		if code != "400" || body != `{"error":"Kvslots-Confirm must be 1"}` {
			t.Errorf("%q: %s %s", value, code, body)
		}
		code, _ = d.ask(t, "lock.acquire", addressed(t, "lock.acquire", someSession, "k", `{"acquire_timeout_s":0}`), wire.ConfirmHeader, value)
		if code != "400" {
			t.Errorf("lock, %q: %s", value, code)
		}
	}
	d.waitFor(t, `"in_use":0`)
}

// Requesters of another account, which come through a service import, confirm too.
func TestConfirmedThroughAServiceImport(t *testing.T) {
	srv := kvslotstest.Start(t, "", func(o *server.Options) {
		o.SyncInterval = time.Second
		err := o.ProcessConfigString(`accounts {
			s { jetstream: enabled, users: [{user: s, password: s}] }
			c { users: [{user: c, password: c}] }
		}
		no_auth_user: s`)
		if err != nil {
			t.Fatal(err)
		}
	})
	store := openPeer(t, srv)
	service, err := srv.LookupAccount("s")
	if err != nil {
		t.Fatal(err)
	}
	clients, err := srv.LookupAccount("c")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(service.AddServiceExport("kvslots.>", nil), clients.AddServiceImport(service, "kvslots.>", "kvslots.>")); err != nil {
		t.Fatal(err)
	}
	d := openDoor(t, srv, store)
	d.register(t, "1")
	held := d.borrow(t, `"ttl":600`)
	waiter := d.confirmer(t, "kvslots.borrow", `{"id":"`+poolA+`","ttl":600,"wait":60}`, nats.UserInfo("c", "c"))
	d.waitFor(t, `"waiting":1`)
	d.giveBack(t, held)
	grant := waiter.grant(t)
	if !strings.HasPrefix(grant.Reply, "_R_.") {
		t.Errorf("the reply subject is %s; the test shows nothing", grant.Reply)
	}
	for began := time.Now(); time.Since(began) < 100*time.Millisecond; { // the first probes are sent
		d.waitFor(t, `"in_use":1`)
	}
	if got := waiter.confirm(t, grant); got != isConfirmed {
		t.Fatalf("confirmed: %s", got)
	}
	d.giveBack(t, leaseOf(t, grant))
}
