package natsapi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/wire"
)

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
	lease, err := d.store.Borrow(t.Context(), uuid.MustParse(poolA), kvslots.WithFixedTTL(10*time.Minute), kvslots.WithWait(0))
	kvslotstest.Must(t, err)
	return wire.NewLease(lease)
}
