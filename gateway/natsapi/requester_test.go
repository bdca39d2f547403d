package natsapi_test

import (
	"encoding/json"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// requester is a client that has sent one request, from a connection that can be cut.
type requester struct {
	nc      *nats.Conn
	conn    net.Conn
	answers *nats.Subscription
}

// send connects a client, which sends a request.
func (d *fixture) send(t *testing.T, subject, body string, header nats.Header, opts ...nats.Option) *requester {
	t.Helper()
	r := &requester{}
	nc, err := nats.Connect(d.srv.ClientURL(), append(opts, nats.NoReconnect(), nats.Timeout(time.Minute), nats.SetCustomDialer(r))...)
	kvslotstest.Must(t, err)
	t.Cleanup(nc.Close)
	r.nc = nc
	m := &nats.Msg{Subject: subject, Reply: nc.NewInbox(), Header: header, Data: []byte(body)}
	r.answers, err = nc.SubscribeSync(m.Reply)
	kvslotstest.Must(t, err)
	kvslotstest.Must(t, errors.Join(nc.PublishMsg(m), nc.Flush()))
	return r
}

const borrowAndWait = `{"id":"` + poolA + `","ttl":600,"wait":60}`

// waiter waits for a slot of the pool.
func (d *fixture) waiter(t *testing.T) *requester {
	t.Helper()
	return d.send(t, "kvslots.borrow", borrowAndWait, nil)
}

// waitingConfirmer waits for a slot of the pool, which it will confirm.
func (d *fixture) waitingConfirmer(t *testing.T) *requester {
	t.Helper()
	return d.send(t, "kvslots.borrow", borrowAndWait, confirming)
}

// confirming is the header of a request whose client will confirm a grant.
var confirming = nats.Header{wire.ConfirmHeader: {"1"}}

// Dial remembers the socket.
func (r *requester) Dial(network, address string) (conn net.Conn, err error) {
	r.conn, err = net.Dial(network, address)
	return r.conn, err
}

// kill cuts the socket, as the kernel does for a process that was killed.
func (r *requester) kill() { r.conn.Close() }

// isHeard reports whether the server has the subscription of the answer.
func (r *requester) isHeard(srv *kvslotstest.Server) bool {
	return srv.GlobalAccount().Interest(r.answers.Subject) > 0
}

// answer returns the next answer.
func (r *requester) answer(t *testing.T) *nats.Msg {
	t.Helper()
	m, err := r.answers.NextMsgWithContext(t.Context())
	kvslotstest.Must(t, err)
	return m
}

// lease returns the lease in the answer.
func (r *requester) lease(t *testing.T) wire.Lease {
	t.Helper()
	m := r.answer(t)
	if status(m) != "200" {
		t.Fatalf("got %s %s", status(m), m.Data)
	}
	return leaseOf(t, m)
}

func leaseOf(t *testing.T, grant *nats.Msg) (lease wire.Lease) {
	t.Helper()
	kvslotstest.Must(t, json.Unmarshal(grant.Data, &lease))
	return lease
}

// grant returns the answer, which must be a grant that is to be confirmed.
func (r *requester) grant(t *testing.T) *nats.Msg {
	t.Helper()
	m := r.answer(t)
	if status(m) != "200" || m.Header.Get(wire.ConfirmHeader) != "1000" {
		t.Fatalf("got %s %s %v", status(m), m.Data, m.Header)
	}
	return m
}

// confirm returns the answer to the confirmation of a grant.
func (r *requester) confirm(t *testing.T, grant *nats.Msg) string {
	t.Helper()
	answer, err := r.nc.RequestWithContext(t.Context(), grant.Reply, nil)
	kvslotstest.Must(t, err)
	return status(answer) + " " + string(answer.Data)
}

const (
	isConfirmed = "200 {}"
	isTooLate   = `404 {"error":"lease not held"}`
)

// confirmGrant confirms the next answer, which must succeed, and returns the grant.
func (r *requester) confirmGrant(t *testing.T) *nats.Msg {
	t.Helper()
	grant := r.grant(t)
	if got := r.confirm(t, grant); got != isConfirmed {
		t.Fatalf("the confirmation is answered %s", got)
	}
	return grant
}
