package natsapi_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// flood has a new client send requests that wait for slots of a new pool, and waits until
// n of them do.
func (d *fixture) flood(t *testing.T, requests, n int) (client *nats.Conn, pool string) {
	t.Helper()
	pool = uuid.NewString()
	if code, answer := d.ask(t, "register", `{"id":"`+pool+`","count":0}`); code != "200" {
		t.Fatalf("register: %s %s", code, answer)
	}
	client = d.srv.Connect()
	inbox := client.NewInbox()
	kvslotstest.Must(t, kvslotstest.Err(client.SubscribeSync(inbox+".*")))
	for i := range requests {
		kvslotstest.Must(t, client.PublishRequest("kvslots.borrow", fmt.Sprintf("%s.%d", inbox, i), []byte(`{"id":"`+pool+`","ttl":600,"wait":600}`)))
	}
	d.waitForPool(t, pool, fmt.Sprintf(`"waiting":%d`, n))
	return client, pool
}

// A client that floods the gateway gets a quarter of the room, a pool that is flooded by
// many clients too. Locks have a room that
// borrows do not take.
func TestFloodsLeaveRoom(t *testing.T) {
	srv, store := openStore(t)
	const size, share = 256, 64
	d := startService(t, srv, store, withSessions(store), func(c *natsapi.Config) { c.MaxBorrows, c.VerbsPerSecond = size, 1e9 })
	d.lending.MaxWait = time.Hour // no request of a flood ends
	d.register(t, "1")
	session := createSession(t, sessionsOverNATS(d))
	const busy = `{"error":"too many requests at once"}`

	_, flooded := d.flood(t, 2*share, share)
	d.want(t, "borrow", `{"id":"`+flooded+`","ttl":600,"wait":600}`, "503", busy)
	d.giveBack(t, d.borrow(t, `"ttl":600,"wait":600`)) // another client, another pool
	gatewaytest.Eventually(t, "the places of what was answered are free", func() bool {
		_, _, open := d.statsOf(t, "borrow")
		return open == share
	})
	for range size/share - 2 { // one share of the room is left
		d.flood(t, 2*share, share)
	}
	d.giveBack(t, d.borrow(t, `"ttl":600,"wait":600`))
	if code, answer := d.ask(t, "lock.acquire", addressed(t, "lock.acquire", session, "k", `{"acquire_timeout_s":60}`)); code != "200" {
		t.Errorf("a lock: %s %s", code, answer)
	}
	d.waitFor(t, `"in_use":0`)
}

// A flood of requests for statistics is answered in part only: each answer has 5 KB, and
// every client may subscribe to it.
func TestVerbsAreLimited(t *testing.T) {
	srv, store := openStore(t)
	d := startService(t, srv, store)
	inbox := d.nc.NewInbox()
	answers, err := d.nc.SubscribeSync(inbox)
	kvslotstest.Must(t, err)
	began := time.Now()
	const flood = 20000
	for range flood {
		kvslotstest.Must(t, d.nc.PublishRequest("$SRV.STATS", inbox, nil))
	}
	kvslotstest.Must(t, d.nc.Flush())
	if err := d.service.Close(t.Context()); err != nil { // which handles what has arrived
		t.Fatal(err)
	}
	kvslotstest.Must(t, d.nc.Flush())
	var n int
	gatewaytest.Eventually(t, "50 requests are answered", func() bool {
		n, _, err = answers.Pending()
		kvslotstest.Must(t, err)
		return n >= 50
	})
	if most := 50 + int(10*time.Since(began).Seconds()) + 1; n > most {
		t.Errorf("%d of %d requests are answered, want 50 to %d", n, flood, most)
	}
	kvslotstest.Must(t, answers.Unsubscribe())
}
