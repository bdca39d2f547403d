package natsapi_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// One connection that makes up an inbox for each of its requests leaves room for those of
// other connections, whether it subscribes to all its inboxes, to one or to none.
func TestMadeUpInboxesLeaveRoom(t *testing.T) {
	const size, share = 256, 64
	for _, c := range []struct {
		name, subscribe string
		most            int // requests that wait
	}{
		{"no inbox", "", share},
		{"one inbox", "SUB _INBOX.made-up-1.* 2\r\n", share + 1},
		{"all inboxes", "SUB _INBOX.> 2\r\n", 2 * share},
		{"all inboxes often", "SUB _INBOX.> 2\r\nSUB _INBOX.*.1 3\r\nSUB _INBOX.*.> 4\r\n", 2 * share},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := startEmbedded(t, func(c *natsapi.Config) { c.MaxBorrows, c.VerbsPerSecond = size, 1e9 })
			d.attack(t, c.subscribe, 4*size)
			gatewaytest.Eventually(t, "the requests of the attacker are handled", func() bool {
				received, answered, open := d.statsOf(t, "borrow")
				return received == 4*size && answered+open == received && open <= c.most
			})
			d.register(t, "1")
			held := d.hold(t) // a borrow over NATS may keep its place for a moment after its answer
			answered := make(chan wire.Lease, share)
			for range share { // another client has a share of its own
				go func() { answered <- d.borrow(t, `"ttl":600,"wait":600`) }()
			}
			d.waitFor(t, fmt.Sprintf(`"waiting":%d`, share))
			for range share {
				d.giveBack(t, held)
				held = <-answered
			}
		})
	}
}

// The requests of a closed connection make room for others while many requests are open.
func TestClosedConnectionsLeaveRoom(t *testing.T) {
	const size, share = 256, 64
	d := startEmbedded(t, func(c *natsapi.Config) { c.MaxBorrows, c.VerbsPerSecond = size, 1e9 })
	attacker := d.attack(t, "SUB _INBOX.*.1 2\r\n", 4*size) // no inboxes of others, whose requests could end with it
	var before int
	gatewaytest.Eventually(t, "the requests of the attacker are handled", func() bool {
		received, answered, open := d.statsOf(t, "borrow")
		before = open
		return received == 4*size && answered+open == received && open >= share && open <= 2*share
	})
	d.register(t, "1")
	number := d.server.Clients().Subscribers()("_INBOX.made-up.1")[0]
	attacker.Close()
	gatewaytest.Eventually(t, "the server knows", func() bool { return !d.server.Clients().Connected(number) })
	d.giveBack(t, d.borrow(t, `"ttl":600,"wait":600`)) // for which the gateway looks at the subscriptions
	gatewaytest.Eventually(t, "those that count for the attacker end", func() bool {
		_, _, open := d.statsOf(t, "borrow")
		return open <= before-share
	})
}

// A flood of cancellations with made-up inboxes and names takes no client's answer, and no
// client's own cancellation.
func TestMadeUpCancelsLeaveAnswers(t *testing.T) {
	d := startEmbedded(t, func(c *natsapi.Config) { c.VerbsPerSecond = 1e9 })
	d.register(t, "1")
	held := d.hold(t)
	answers := map[string]chan string{}
	for i, name := range []string{"first", "second"} {
		answer := make(chan string, 1)
		answers[name] = answer
		go func() {
			_, body := d.ask(t, "borrow", `{"id":"`+poolA+`","ttl":600,"wait":600}`, wire.RequestHeader, name)
			answer <- body
		}()
		d.waitFor(t, fmt.Sprintf(`"waiting":%d`, i+1))
	}
	const cancels = 10000
	var all strings.Builder
	for i := range cancels {
		header := fmt.Sprintf("NATS/1.0\r\n%s: made-up-%d\r\n\r\n", wire.RequestHeader, i)
		fmt.Fprintf(&all, "HPUB kvslots.cancel _INBOX.made-up-%d.1 %d %d\r\n%s\r\n", i, len(header), len(header), header)
	}
	dialRaw(t, d.address()).send(t, all.String())
	gatewaytest.Eventually(t, "the cancellations have arrived", func() bool {
		received, _, _ := d.statsOf(t, "cancel")
		return received == cancels
	})
	cancel(t, d.nc, "second")
	if got := <-answers["second"]; got != `{"error":"the client went away"}` {
		t.Errorf("the second waiter, which cancelled, got %s", got)
	}
	d.giveBack(t, held)
	if got := <-answers["first"]; !strings.Contains(got, `"lease"`) {
		t.Errorf("the first waiter got %s", got)
	}
	d.waitFor(t, `"in_use":1`)
}

// hold takes a slot of the pool without a request.
func (d *embedded) hold(t *testing.T) wire.Lease {
	t.Helper()
	lease, err := d.store.Borrow(t.Context(), uuid.MustParse(poolA), 10*time.Minute, 0)
	kvslotstest.Must(t, err)
	return wire.NewLease(lease)
}

// attack has one raw connection send requests that wait, each with another inbox, and to
// one of ten pools.
func (d *embedded) attack(t *testing.T, subscribe string, requests int) net.Conn {
	t.Helper()
	var all strings.Builder
	all.WriteString(subscribe)
	var pools [10]uuid.UUID
	for i := range pools {
		pools[i] = uuid.New()
		if _, err := d.store.Register(t.Context(), pools[i], 0); err != nil {
			t.Fatal(err)
		}
	}
	for i := range requests {
		body := `{"id":"` + pools[i%len(pools)].String() + `","ttl":600,"wait":600}`
		fmt.Fprintf(&all, "PUB kvslots.borrow _INBOX.made-up-%d.1 %d\r\n%s\r\n", i, len(body), body)
	}
	c := dialRaw(t, d.address())
	go func() { _, _ = io.Copy(io.Discard, c.conn) }()
	c.send(t, all.String())
	return c.conn
}
