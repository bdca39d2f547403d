package natsapi_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/natsembed"
)

// forger is a client that serves functions, and may therefore answer what it receives. It
// receives what is sent to all inboxes, and answers as a server does when nothing is
// subscribed there.
type forger struct{ answered sync.Map } // has the reply subjects

func (d *embedded) forge(t *testing.T) *forger {
	t.Helper()
	f, nc := &forger{}, d.connect(t)
	_, err := nc.Subscribe("_INBOX.>", func(m *nats.Msg) {
		if m.Reply != "" {
			_ = nc.PublishMsg(&nats.Msg{Subject: m.Reply, Header: nats.Header{"Status": {"503"}}})
			_ = nc.Flush()
			f.answered.Store(m.Reply, true)
		}
	})
	if err != nil || nc.Flush() != nil {
		t.Fatal(err)
	}
	return f
}

// At a listener where every client may serve functions, no client can make the gateway take
// back what it has granted to another one.
func TestOthersCannotAnswerGrants(t *testing.T) {
	d := startEmbeddedWith(t, natsembed.Config{Functions: natsembed.Functions{Prefix: "forrst.fn"}}, kvslots.Config{})
	d.register(t, "1")
	forger := d.forge(t)
	borrow := func(wait int, header nats.Header) chan *nats.Msg {
		granted := make(chan *nats.Msg, 1)
		inbox := d.nc.NewInbox()
		kvslotstest.Must(t, kvslotstest.Err(d.nc.Subscribe(inbox, func(m *nats.Msg) { granted <- m })))
		body := fmt.Appendf(nil, `{"id":"%s","ttl":600,"wait":%d}`, poolA, wait)
		kvslotstest.Must(t, d.nc.PublishMsg(&nats.Msg{Subject: "kvslots.borrow", Reply: inbox, Header: header, Data: body}))
		return granted
	}
	next := func(granted chan *nats.Msg) *nats.Msg {
		t.Helper()
		select {
		case m := <-granted:
			for answered := m.Reply == ""; !answered; time.Sleep(time.Millisecond) {
				_, answered = forger.answered.Load(m.Reply)
			}
			return m
		case <-time.After(time.Minute):
			t.Fatal("no grant")
			return nil
		}
	}
	giveBack := func(grant *nats.Msg) {
		t.Helper()
		lease := leaseOf(t, grant).Lease.String()
		d.want(t, "return", `{"id":"`+poolA+`","lease":"`+lease+`"}`, "200", `{"returned":true}`)
	}
	for name, header := range map[string]nats.Header{"not confirmed": nil, "confirmed": confirming} {
		t.Run(name, func(t *testing.T) {
			held := next(borrow(0, header))
			if held.Reply != "" {
				t.Errorf("another client may answer the grant on %s", held.Reply)
			}
			waiting := borrow(60, header)
			for answer := ""; !strings.Contains(answer, `"waiting":1`); time.Sleep(time.Millisecond) {
				_, answer = d.ask(t, "inspect", `{"id":"`+poolA+`"}`)
			}
			giveBack(held)
			granted := next(waiting)
			switch {
			case header == nil && granted.Reply != "":
				t.Errorf("another client may answer the grant after a wait on %s", granted.Reply)
			case header != nil:
				answer, err := d.nc.RequestWithContext(t.Context(), granted.Reply, nil)
				if err != nil || string(answer.Data) != "{}" {
					t.Errorf("the confirmation is answered %v, %v", answer, err)
				}
			}
			giveBack(granted)
		})
	}
}
