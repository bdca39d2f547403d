package natsapi_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/wire"
)

func TestConfirmed(t *testing.T) {
	d := serveSlots(t, "1")
	held, waiting := d.queue(t, 1, d.waitingConfirmer)
	waiter := waiting[0]
	d.giveBack(t, held)
	grant := waiter.confirmGrant(t)
	if got := waiter.confirm(t, grant); got != isTooLate {
		t.Errorf("confirmed again: %s", got)
	}
	d.giveBack(t, leaseOf(t, grant)) // it was still held
}

// A client that is alive and does not confirm loses its turn. A later confirmation is
// refused, so that the client does not believe that it holds another client's slot.
func TestNotConfirmed(t *testing.T) {
	d := serveSlots(t, "1")
	held, waiting := d.queue(t, 2, d.waitingConfirmer)
	silent, next := waiting[0], waiting[1]
	d.giveBack(t, held)
	lost := silent.grant(t)
	// Neither another grant's subject nor one with a reply subject to which the
	// gateway does not answer confirms it.
	other := lost.Reply[:strings.LastIndexByte(lost.Reply, '.')] + ".x"
	if got := silent.confirm(t, &nats.Msg{Reply: other}); got != isTooLate {
		t.Errorf("another grant's confirmation: %s", got)
	}
	kvslotstest.Must(t, silent.nc.PublishRequest(lost.Reply, "$KV.kvslots.x", nil))
	won := next.confirmGrant(t)
	if got := silent.confirm(t, lost); got != isTooLate {
		t.Errorf("late: %s", got)
	}
	d.giveBack(t, leaseOf(t, won))
	d.waitFor(t, `"in_use":0,"available":1,"waiting":0`)
	if strings.Contains(d.logs.String(), `"level":"warn","message":"a lease`) {
		t.Errorf("logged:\n%s", d.logs)
	}
}

// If a client is killed while it waits, the next in line gets the slot at once.
func TestConfirmerKilledWhileWaiting(t *testing.T) {
	srv, store := openStore(t)
	d := startService(t, srv, store)
	d.killWhileWaiting(t, srv, d.waitingConfirmer, func(next *requester) wire.Lease {
		return leaseOf(t, next.confirmGrant(t))
	})
}

// A client that dies between the grant and its confirmation holds nothing.
func TestConfirmerKilledWhileItIsGranted(t *testing.T) {
	d := serveSlots(t, "1")
	for range 10 {
		held, waiting := d.queue(t, 1, d.waitingConfirmer)
		dead := waiting[0]
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
		dead := d.send(t, "kvslots.lock.acquire", addressed(t, "lock.acquire", b, "k", body), confirming)
		d.waitForLine(t, store, "k", 1)
		next := d.send(t, "kvslots.lock.acquire", addressed(t, "lock.acquire", c, "k", body), confirming)
		d.waitForLine(t, store, "k", 2)
		dead.kill()
		ask(t, "lock.release", a, "k", `{"token":"`+held[1]+`"}`)
		grant := next.confirmGrant(t)
		token := newToken.FindStringSubmatch(string(grant.Data))
		if got := ask(t, "lock.release", c, "k", `{"token":"`+token[1]+`"}`); got != "200 {}" {
			t.Errorf("release: %s", got)
		}
		d.free(t, store, "k")
		next.nc.Close()
		dead.nc.Close()
	}
}

// A grant that is cancelled while it is unconfirmed is taken back once, without a warning.
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
		_, err := d.nc.RequestMsgWithContext(t.Context(), m)
		granted <- err
	}()
	d.waitForLine(t, store, "k", 1)
	ask(t, "lock.release", a, "k", `{"token":"`+held[1]+`"}`)
	kvslotstest.Must(t, <-granted)
	cancel(t, d.nc, "named")
	d.free(t, store, "k")
	// The session's next request is served when the confirmation has timed out.
	if got := ask(t, "lock.acquire", b, "other", `{"acquire_timeout_s":0}`); !strings.HasPrefix(got, "200") {
		t.Error(got)
	}
	if logged := d.logs.String(); strings.Contains(logged, "could not be taken back") {
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

// openImported opens a store on a server whose user c is in an account that imports the service.
func openImported(t *testing.T) (*kvslotstest.Server, *kvslots.Store) {
	t.Helper()
	srv := kvslotstest.Start(t, "", func(o *server.Options) {
		o.SyncInterval = time.Second
		err := o.ProcessConfigString(`accounts {
			s { jetstream: enabled, users: [{user: s, password: s}] }
			c { users: [{user: c, password: c}] }
		}
		no_auth_user: s`)
		kvslotstest.Must(t, err)
	})
	store := openPeer(t, srv)
	service, err := srv.LookupAccount("s")
	kvslotstest.Must(t, err)
	clients, err := srv.LookupAccount("c")
	kvslotstest.Must(t, err)
	kvslotstest.Must(t, errors.Join(service.AddServiceExport("kvslots.>", nil), clients.AddServiceImport(service, "kvslots.>", "kvslots.>")))
	return srv, store
}

// Clients of another account, whose requests pass a service import, confirm too.
func TestConfirmedThroughAServiceImport(t *testing.T) {
	srv, store := openImported(t)
	d := startService(t, srv, store)
	d.register(t, "1")
	held := d.borrow(t, `"ttl":600`)
	waiter := d.send(t, "kvslots.borrow", borrowAndWait, confirming, nats.UserInfo("c", "c"))
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
