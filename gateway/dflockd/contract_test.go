package dflockd_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// contract has a row for each sentence of dflockd's documentation about its HTTP API, for
// each row of its table of errors, and for each further statement of gateway/README.md,
// "The dflockd API: /v1". Each row has its own gateway and store.
//
// One sentence does not hold: "Server shutdown. All sessions are closed and their state
// cleaned up." Our sessions outlive the server: see TestSessionsOutliveARestart. A test of
// gateway/natsapi shows that clients of HTTP and of NATS wait in one line.
var contract = slices.Concat(sessionContract, lockContract, lineContract, semaphoreContract, statsContract, refusalContract)

// clause is a sentence, and a check that it holds.
type clause struct {
	sentence string
	change   func(o *options)
	store    kvslots.Config
	check    func(t *testing.T, d *fixture)
}

// idle sets the idle timeout in answers to clients.
func idle(d time.Duration) func(o *options) {
	return func(o *options) { o.dialect.IdleTimeout = d }
}

func TestContract(t *testing.T) {
	for _, row := range contract {
		t.Run(row.sentence, func(t *testing.T) {
			t.Parallel()
			change := row.change
			if change == nil {
				change = func(*options) {}
			}
			row.check(t, openFixture(t, openStore(t, row.store), change))
		})
	}
}

// A session created at one gateway works at every other; its lease survives a
// gateway's end; enqueue at A, wait at B, release at C works.
func TestAcrossGateways(t *testing.T) {
	srv := startServer(t, t.TempDir())
	var gateways []*fixture
	var ends []func()
	for range 3 {
		store, end := openPeer(t, srv, kvslots.Config{})
		gateways, ends = append(gateways, openFixture(t, store)), append(ends, end)
	}
	s, other := gateways[0].session(t), gateways[1].session(t)
	held := gateways[2].grant(t, s, "/v1/locks/k", `{"acquire_timeout_s":0,"lease_ttl_s":600}`)
	gateways[0].want(t, other, "POST", "/v1/locks/k/enqueue", "", 200, queued)
	ends[0]() // this gateway is gone
	gateways[1].want(t, s, "POST", "/v1/locks/k/renew", `{"token":"`+held.Token+`","lease_ttl_s":600}`, 200, `\{"remaining_s":600\}`)
	answered := gateways[1].later(t, other, "POST", "/v1/locks/k/wait", `{"timeout_s":30}`)
	gateways[2].want(t, s, "POST", "/v1/locks/k/release", `{"token":"`+held.Token+`"}`, 204, "")
	got := <-answered
	if !strings.Contains(got, `"status":"ok"`) {
		t.Fatalf("the waiter got %s", got)
	}
	gateways[2].want(t, other, "POST", "/v1/locks/k/release", `{"token":"`+strings.Split(got, `"`)[7]+`"}`, 204, "")
	gateways[1].free(t, "k")
}

// Unlike dflockd's, sessions outlive the server, and so does what they hold.
func TestSessionsOutliveARestart(t *testing.T) {
	dir := t.TempDir()
	srv := startServer(t, dir)
	store, end := openPeer(t, srv, kvslots.Config{Sole: true})
	d := openFixture(t, store)
	s := d.session(t)
	held := d.grant(t, s, "/v1/locks/k", `{"acquire_timeout_s":0,"lease_ttl_s":600}`)
	end()
	kvslotstest.Must(t, srv.Close())
	store, _ = openPeer(t, startServer(t, dir), kvslots.Config{Sole: true})
	d = openFixture(t, store)
	d.want(t, s, "POST", "/v1/locks/k/renew", `{"token":"`+held.Token+`","lease_ttl_s":600}`, 200, `\{"remaining_s":600\}`)
	d.want(t, s, "POST", "/v1/locks/k/release", `{"token":"`+held.Token+`"}`, 204, "")
}
