package natsapi_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway/natsapi"
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
	if _, err := client.SubscribeSync(inbox + ".*"); err != nil {
		t.Fatal(err)
	}
	for i := range requests {
		if err := client.PublishRequest("kvslots.borrow", fmt.Sprintf("%s.%d", inbox, i), []byte(`{"id":"`+pool+`","ttl":60,"wait":60}`)); err != nil {
			t.Fatal(err)
		}
	}
	d.waitForPool(t, pool, fmt.Sprintf(`"waiting":%d`, n))
	return client, pool
}

// A client that floods the gateway gets a quarter of the room, a pool that is flooded by
// many clients too, and many such clients leave room to others. Locks have a room that
// borrows do not take.
func TestFloodsLeaveRoom(t *testing.T) {
	srv, store := openStore(t)
	const size, share = 256, 64
	d := startService(t, srv, store, withSessions(store), func(c *natsapi.Config) { c.MaxBorrows = size })
	d.register(t, "1")
	session := createSession(t, sessionsOverNATS(d))
	const busy = `{"error":"too many requests at once"}`

	_, flooded := d.flood(t, 2*share, share)
	d.want(t, "borrow", `{"id":"`+flooded+`","ttl":60,"wait":60}`, "503", busy)
	d.giveBack(t, d.borrow(t, `"ttl":60,"wait":60`))               // another client, another pool
	for _, n := range []int{share, share, (share - size/16) / 2} { // the last gets half of what is free beyond the reserve
		d.flood(t, 2*share, n)
	}
	d.giveBack(t, d.borrow(t, `"ttl":60,"wait":60`))
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
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	const flood = 20000
	for range flood {
		if err := d.nc.PublishRequest("$SRV.STATS", inbox, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := d.service.Close(t.Context()); err != nil { // which handles what has arrived
		t.Fatal(err)
	}
	if err := d.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	most := 50 + int(10*time.Since(began).Seconds()) + 1
	n, _, err := answers.Pending()
	if err = errors.Join(err, answers.Unsubscribe()); err != nil {
		t.Fatal(err)
	}
	if n < 50 || n > most {
		t.Errorf("%d of %d requests are answered, want 50 to %d", n, flood, most)
	}
}
