package dflockd_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots"
)

// contract has a row for each sentence of dflockd's documentation that says
// something of its HTTP API, and for each row of its table of errors; then what
// gateway/README.md, "The dflockd API: /v1", says beyond that. Each has a gateway and a store of its own.
//
// One differs: "Server shutdown. All sessions are closed and their state cleaned
// up." Ours outlive it, see TestSessionsOutliveARestart. That HTTP and other
// clients stand in one line is shown in gateway/natsapi.
var contract = slices.Concat(sessionContract, lockContract, lineContract, semaphoreContract, statsContract, refusalContract)

// clause is a sentence, and what shows that it holds.
type clause struct {
	sentence string
	change   func(o *options)
	store    kvslots.Config
	check    func(t *testing.T, d *door)
}

// idle sets the idle timeout that clients are told.
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
			row.check(t, openDoor(t, openStore(t, row.store), change))
		})
	}
}

// A session created at one gateway works at every other; its lease survives a
// gateway's end; enqueue at A, wait at B, release at C works.
func TestAcrossGateways(t *testing.T) {
	srv := startServer(t, t.TempDir())
	var doors []*door
	var ends []func()
	for range 3 {
		store, end := openPeer(t, srv, kvslots.Config{})
		doors, ends = append(doors, openDoor(t, store)), append(ends, end)
	}
	s, other := doors[0].session(t), doors[1].session(t)
	held := doors[2].grant(t, s, "/v1/locks/k", `{"acquire_timeout_s":0,"lease_ttl_s":600}`)
	doors[0].want(t, other, "POST", "/v1/locks/k/enqueue", "", 200, queued)
	ends[0]() // this gateway is gone
	doors[1].want(t, s, "POST", "/v1/locks/k/renew", `{"token":"`+held.Token+`","lease_ttl_s":600}`, 200, `\{"remaining_s":600\}`)
	told := doors[1].later(t, other, "POST", "/v1/locks/k/wait", `{"timeout_s":30}`)
	doors[2].want(t, s, "POST", "/v1/locks/k/release", `{"token":"`+held.Token+`"}`, 204, "")
	got := <-told
	if !strings.Contains(got, `"status":"ok"`) {
		t.Fatalf("the waiter was told %s", got)
	}
	doors[2].want(t, other, "POST", "/v1/locks/k/release", `{"token":"`+strings.Split(got, `"`)[7]+`"}`, 204, "")
	doors[1].free(t, "k")
}

// Unlike dflockd's, sessions outlive the server, and so does what they hold.
func TestSessionsOutliveARestart(t *testing.T) {
	dir := t.TempDir()
	srv := startServer(t, dir)
	store, end := openPeer(t, srv, kvslots.Config{Sole: true})
	d := openDoor(t, store)
	s := d.session(t)
	held := d.grant(t, s, "/v1/locks/k", `{"acquire_timeout_s":0,"lease_ttl_s":600}`)
	end()
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	store, _ = openPeer(t, startServer(t, dir), kvslots.Config{Sole: true})
	d = openDoor(t, store)
	d.want(t, s, "POST", "/v1/locks/k/renew", `{"token":"`+held.Token+`","lease_ttl_s":600}`, 200, `\{"remaining_s":600\}`)
	d.want(t, s, "POST", "/v1/locks/k/release", `{"token":"`+held.Token+`"}`, 204, "")
}
