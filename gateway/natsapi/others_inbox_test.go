package natsapi_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/natsembed"
)

const small, smallShare = 256, 64 // of Config.MaxBorrows

// park sends n requests that wait, with the reply subjects of a format, and waits until they have arrived.
func (d *fixture) park(t *testing.T, nc *nats.Conn, inboxes string, n int) {
	t.Helper()
	pool := uuid.NewString()
	if code, answer := d.ask(t, "register", `{"id":"`+pool+`","count":0}`); code != "200" {
		t.Fatalf("register: %s %s", code, answer)
	}
	before, _, _ := d.statsOf(t, "borrow")
	for i := range n {
		kvslotstest.Must(t, nc.PublishRequest("kvslots.borrow", fmt.Sprintf(inboxes, i), []byte(`{"id":"`+pool+`","ttl":600,"wait":600}`)))
	}
	gatewaytest.Eventually(t, "all have arrived", func() bool {
		received, _, _ := d.statsOf(t, "borrow")
		return received == before+n
	})
}

func tooFew(c *natsapi.Config) { c.MaxBorrows, c.VerbsPerSecond = small, 1e9 }

// A client that knows another one's inbox prefix, but not the subjects that it has drawn, takes none of its places.
func TestOthersInbox(t *testing.T) {
	t.Run("at a listener", func(t *testing.T) {
		d := startEmbeddedWith(t, natsembed.Config{}, kvslots.Config{}, tooFew)
		d.victimIsServed(t, d.connect(t), d.connect(t), "_INBOX.victim", smallShare)
		if _, _, open := d.statsOf(t, "borrow"); open != smallShare {
			t.Errorf("%d are open, want those of the victim only", open)
		}
	})
	t.Run("at an external server", func(t *testing.T) {
		srv, store := openStore(t)
		d := startService(t, srv, store, tooFew)
		d.victimIsServed(t, d.srv.Connect(), d.srv.Connect(), "_INBOX_victim", smallShare/2)
	})
}

// victimIsServed parks requests in the name of a victim, and lets it have its own n.
func (d *fixture) victimIsServed(t *testing.T, attacker, victim *nats.Conn, prefix string, n int) {
	t.Helper()
	kvslotstest.Must(t, kvslotstest.Err(victim.SubscribeSync(prefix+".drawn.*")))
	kvslotstest.Must(t, victim.Flush())
	d.park(t, attacker, prefix+".x%d", 4*smallShare)
	gatewaytest.Eventually(t, "half of the share, or less, is taken", func() bool {
		_, _, open := d.statsOf(t, "borrow")
		return open <= smallShare/2
	})
	d.park(t, victim, prefix+".drawn.%d", n)
	gatewaytest.Eventually(t, "the victim's wait", func() bool {
		_, _, open := d.statsOf(t, "borrow")
		return open >= n
	})
}

// At a listener, a connection has one share, whatever inboxes it makes up.
func TestMadeUpInboxesShare(t *testing.T) {
	d := startEmbeddedWith(t, natsembed.Config{}, kvslots.Config{}, tooFew)
	attacker := d.connect(t)
	kvslotstest.Must(t, kvslotstest.Err(attacker.SubscribeSync("_INBOX.made.>")))
	kvslotstest.Must(t, attacker.Flush())
	d.register(t, "1")
	d.park(t, attacker, "_INBOX.made.%d.x", 2*smallShare)
	gatewaytest.Eventually(t, "one share is taken", func() bool {
		_, _, open := d.statsOf(t, "borrow")
		return open == smallShare
	})
	d.giveBack(t, d.borrow(t, `"ttl":600,"wait":600`))
}
