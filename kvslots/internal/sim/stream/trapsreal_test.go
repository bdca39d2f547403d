package stream_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/internal/sim/stream"
)

// A real server erases an acknowledged write by its own marker. The server finds an
// expired message and then waits for its turn to store the marker; a renewal that is
// stored in between is erased. The test renews keys one after the other, each shortly
// after its time is over. The server looks for expired messages every 250 ms, so that
// some renewals come in between.
func TestServerErasesAcknowledgedWrite(t *testing.T) {
	if testing.Short() {
		t.Skip("takes two seconds")
	}
	const perTick, ticks, late = 40, 300, 5 // a tick is a millisecond
	nc := natstest.Start(t, "").Connect()
	real := createReal(t, nc, realConfig("KV_erased", 1, 1, time.Minute))
	renewals, err := nc.SubscribeSync(nc.NewInbox())
	natstest.Must(t, err)
	send := func(m stream.Message, reply string) {
		msg := real.message(m)
		msg.Reply = reply
		natstest.Must(t, nc.PublishMsg(msg))
	}
	began := time.Now()
	for tick := range 1000 + late + ticks {
		time.Sleep(time.Until(began.Add(time.Duration(tick) * time.Millisecond)))
		for i := range perTick {
			if tick < ticks {
				send(put(fmt.Sprint("k.", tick*perTick+i), "1s"), "")
			}
			if n := (tick-1000-late)*perTick + i; n >= 0 { // the n-th key's claim has sequence n+1
				send(expecting(put(fmt.Sprint("k.", n), ""), uint64(n)+1), renewals.Subject)
			}
		}
	}
	acked := map[uint64]bool{}
	for range perTick * ticks {
		m, err := renewals.NextMsg(answerTimeout)
		natstest.Must(t, err)
		acked[parseAck(t, m).Sequence] = true
	}
	delete(acked, 0)
	all := len(acked)
	eventually(t, "what was not renewed to expire", func() bool {
		return !slices.ContainsFunc(real.all(), func(m stream.Stored) bool { return m.Header.TTL == "1s" })
	}, func() string { return "" })
	for _, m := range real.all() {
		delete(acked, m.Sequence)
	}
	if len(acked) == 0 {
		t.Skipf("none of %d renewals met a marker", all)
	}
	t.Logf("%d of %d renewals were acknowledged and erased", len(acked), all)
}

// The leader of a replicated stream refuses a write while another one to the key is in
// flight, and checks the TTL first. The model does the same.
func TestServerRefusesWriteInFlight(t *testing.T) {
	cluster := natstest.StartCluster(t)
	nc := cluster.Connect(nats.Timeout(answerTimeout))
	real := createReal(t, nc, realConfig("KV_flight", 3, 1, time.Minute))
	leader := cluster.StreamLeader("KV_flight").Connect()
	model := modelOf(3, nil)

	now := start
	for _, m := range []stream.Message{
		expecting(put("a", ""), 0),
		expecting(put("a", "1h"), 1),
		expecting(put("a", "x"), 7),
		expecting(put("a", "500ms"), 2),
		expecting(put("a", ""), 1),
		expecting(put("b", ""), 1),
		{Key: "a", Header: stream.Header{Expected: new(uint64(9)), ExpectedLast: new(uint64(1))}},
		{Key: "c", Header: stream.Header{ExpectedLast: new(uint64(2))}},
		purgeOf("a", 2, "120s"),
	} {
		if got, want := real.publish(m), model.Publish(m, now); got != want {
			t.Errorf("%s %v: server %+v, model %+v", m.Key, headersOf(m.Header), got, want)
		}
		now = now.Add(time.Second)
	}

	// The second of two simultaneous claims meets the proposal of the first.
	real.nc = leader
	inbox := leader.NewInbox()
	answers, err := leader.SubscribeSync(inbox)
	natstest.Must(t, err)
	for n := range 1000 {
		for range 2 {
			m := real.message(expecting(put(fmt.Sprint("k.", n), ""), 0))
			m.Reply = inbox
			natstest.Must(t, leader.PublishMsg(m))
		}
		for range 2 {
			m, err := answers.NextMsg(answerTimeout)
			natstest.Must(t, err)
			if a := parseAck(t, m); a.Code == stream.CodeInFlight {
				if want := (stream.Ack{Code: stream.CodeInFlight, Description: "wrong last sequence"}); a != want {
					t.Errorf("server %+v, model %+v", a, want)
				}
				t.Logf("refused at try %d", n+1)
				return
			}
		}
	}
	t.Error("no write was refused for one in flight")
}

// A consumer may begin after the last sequence. It waits for that sequence.
func TestServersConsumerWaits(t *testing.T) {
	nc := natstest.Start(t, "").Connect()
	real := createReal(t, nc, realConfig("KV_ahead", 1, 1, time.Minute))
	model := modelOf(1, nil)
	both := func(key string) {
		t.Helper()
		if got, want := real.publish(put(key, "")), model.Publish(put(key, ""), start); got != want {
			t.Errorf("server %+v, model %+v", got, want)
		}
	}
	both("a")
	watch, eye := startWatch(t, real, 4), model.Consumer(4)
	for n := range 4 {
		both(fmt.Sprint(n))
	}
	for _, want := range []uint64{4, 5} {
		if m, ok := eye.Next(); !ok || m.Sequence != want {
			t.Errorf("the model delivers %d, not %d", m.Sequence, want)
		}
	}
	eventually(t, "two deliveries", func() bool { return len(watch.after(0)) == 2 }, func() string { return describeAll(watch.after(0)) })
	if got := watch.after(0); got[0].Sequence != 4 || got[1].Sequence != 5 {
		t.Errorf("the server delivers:\n%s", describeAll(got))
	}
}
