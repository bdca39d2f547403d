package stream_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/internal/sim/stream"
)

// inSoak returns how much a test does.
func inSoak(short, soak int) int {
	if os.Getenv("KVSLOTS_SOAK") != "" {
		return soak
	}
	return short
}

// Without faults the feed has every message of the stream once and in order, overwritten ones
// too, and each before its ack.
func TestFeedHasEveryMessage(t *testing.T) {
	for _, replicas := range []int{1, 3} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			conns := feedConns(t, replicas)
			real := createReal(t, conns[0], withFeed(realConfig(feedStream, replicas, 1, time.Hour)))
			c := &feedCheck{t: t, real: real, first: 1}
			for n, nc := range conns {
				c.wires = append(c.wires, openWire(t, nc, *seed+uint64(n)))
			}
			leads := leaderOf(t, real)
			last := uint64(inSoak(1500, 100_000))
			stop := startWriters(c.wires, 4, time.Millisecond)
			eventually(t, "enough entries", func() bool { return c.wires[0].lastSequence() >= last }, func() string { return "" })
			stop()
			eventually(t, "all answers", func() bool {
				return !slices.ContainsFunc(c.wires, func(w *wire) bool { return !w.answeredAll() })
			}, func() string { return "" })
			c.settleFeed()
			n := c.check()
			t.Log(n)
			if leads != leaderOf(t, real) {
				t.Skip("the stream has changed its leader")
			}
			if n.missing+n.away+n.never+n.repeated+n.late > 0 || n.refusedStored+n.severalAnswers > 0 {
				t.Error("the feed of an undisturbed stream has faults")
			}
			markers := 0
			for _, e := range c.all {
				if e.Header.Reason == "MaxAge" {
					markers++
				}
			}
			if n.refused == 0 || markers == 0 {
				t.Errorf("%d refusals, %d markers", n.refused, markers)
			}
		})
	}
}

// feedConns returns connections for three peers, on a cluster to each of the servers.
func feedConns(t *testing.T, replicas int) (conns []*nats.Conn) {
	t.Helper()
	opts := nats.Timeout(answerTimeout)
	if replicas == 1 {
		s := natstest.Start(t, "")
		return []*nats.Conn{s.Connect(opts), s.Connect(opts), s.Connect(opts)}
	}
	for _, s := range natstest.StartCluster(t).Servers {
		conns = append(conns, s.Connect(opts))
	}
	return conns
}

// leaderOf returns the leader of a stream, and since when it leads.
func leaderOf(t *testing.T, r *realStream) string {
	t.Helper()
	i, err := r.stream.Info(t.Context())
	natstest.Must(t, err)
	if i.Cluster == nil {
		return ""
	}
	return fmt.Sprint(i.Cluster.Leader, i.Cluster.LeaderSince)
}

// An entry of the feed has the headers of the write, the server's, and those that a direct
// get adds, with the revision before it.
func TestFeedHeaders(t *testing.T) {
	nc := natstest.Start(t, "").Connect()
	real := createReal(t, nc, withFeed(realConfig(feedStream, 1, 1000, time.Hour)))
	feed, err := nc.SubscribeSync(feedPrefix + ">")
	natstest.Must(t, err)
	write := expecting(put("a.b", "1s"), 0)
	write.Header.Other = map[string]string{headerAuthor: "7", "Test-Other": "8"}
	purge := purgeOf("a.b", 1001, "90s")
	purge.Header.Other = map[string]string{"Test-Owner": "me", "Nats-Sequence": "1", "Nats-Last-Sequence": "2"}
	for _, want := range []struct {
		write   *stream.Message // nil for the server's own marker
		headers map[string][]string
		without string
	}{
		{&write, map[string][]string{
			"Nats-Stream": {feedStream}, "Nats-Subject": {"$KV.kvslots.a.b"}, "Nats-Sequence": {"1000"}, "Nats-Last-Sequence": {"0"},
			entry.HeaderExpected: {"0"}, entry.HeaderTTL: {"1s"}, headerAuthor: {"7"}, "Test-Other": {"8"},
		}, ""},
		{nil, map[string][]string{
			"Nats-Stream": {feedStream}, "Nats-Subject": {"$KV.kvslots.a.b"}, "Nats-Sequence": {"1001"}, "Nats-Last-Sequence": {"1000"},
			entry.HeaderReason: {"MaxAge"}, entry.HeaderTTL: {"1h0m0s"},
		}, headerAuthor},
		{&purge, map[string][]string{ // with headers that were meant to look like the server's
			"Nats-Sequence": {"1", "1002"}, "Nats-Last-Sequence": {"2", "1001"},
			entry.HeaderOperation: {"PURGE"}, entry.HeaderTTL: {"90s"}, entry.HeaderExpected: {"1001"}, "Test-Owner": {"me"},
		}, entry.HeaderReason},
	} {
		if want.write != nil {
			if a := real.publish(*want.write); a.Code != 0 {
				t.Fatalf("refused: %+v", a)
			}
		}
		m, err := feed.NextMsg(answerTimeout)
		natstest.Must(t, err)
		for name, values := range want.headers {
			if got := m.Header.Values(name); !slices.Equal(got, values) {
				t.Errorf("%s is %q, not %q", name, got, values)
			}
		}
		if want.without != "" && m.Header.Get(want.without) != "" {
			t.Errorf("has %s", want.without)
		}
		if m.Reply != "" {
			t.Errorf("has the reply subject %q", m.Reply)
		}
		e, err := parseFeed(m)
		natstest.Must(t, err)
		got, err := real.stream.GetMsg(t.Context(), e.Sequence)
		if err != nil {
			continue // expired or overwritten meanwhile
		}
		if !got.Time.Equal(e.Time) || string(got.Data) != string(m.Data) {
			t.Errorf("the feed has %v %q, the stream %v %q", e.Time, m.Data, got.Time, got.Data)
		}
	}
}

// A stream that gets a feed by an update keeps its messages and sequences, now and after a
// restart.
func TestFeedAddedByUpdate(t *testing.T) {
	server := natstest.Start(t, "")
	nc := server.Connect()
	first := uint64(time.Now().UnixMicro())
	old := createReal(t, nc, realConfig(feedStream, 1, first, time.Hour))
	for n := range 20 {
		old.publish(put(fmt.Sprint("k.", n%5), ""))
	}
	before := old.info()
	kept := describeAll(old.all())

	js := natstest.JetStream(t, nc, jetstream.WithDefaultTimeout(answerTimeout))
	w := openWire(t, nc, 1)
	natstest.Must(t, natstest.Err(js.UpdateStream(t.Context(), withFeed(old.config()))))
	unchanged := func(r *realStream) {
		t.Helper()
		if got := r.info(); got != before {
			t.Errorf("info %+v, not %+v", got, before)
		}
		if got := describeAll(r.all()); got != kept {
			t.Errorf("messages:\n%s\nnot:\n%s", got, kept)
		}
	}
	unchanged(old)
	server.Restart()
	nc = server.Connect()
	real := openReal(t, nc, feedStream)
	unchanged(real)
	again := openWire(t, nc, 1)
	if republish := real.config().RePublish; republish == nil || republish.Destination != feedPrefix+">" {
		t.Errorf("the stream republishes %+v", republish)
	}
	revision := real.publish(put("k.1", "")).Sequence
	if revision != before.Last+1 {
		t.Errorf("wrote %d after %d", revision, before.Last)
	}
	eventually(t, "an entry", func() bool { return again.lastSequence() == revision }, func() string { return "" })
	if again.entries[0].last == 0 || len(again.entries) > 1 || len(w.entries) > 0 {
		t.Errorf("the feed had %+v after the restart, %+v before", again.entries, w.entries)
	}
}

// An operator's purge of the stream, and what expires without a marker, leave no gap in the
// sequences: the feed shows nothing of them. A view must look for them in another way.
func TestFeedDoesNotShow(t *testing.T) {
	nc := natstest.Start(t, "").Connect()
	real := createReal(t, nc, withFeed(realConfig(feedStream, 1, 1, time.Hour)))
	w := openWire(t, nc, 1)
	real.publish(put("a", ""))
	real.publish(purgeOf("b", 0, "1s"))
	eventually(t, "b to expire", func() bool { return len(real.all()) == 1 }, func() string { return "" })
	natstest.Must(t, real.stream.Purge(t.Context()))
	if got := real.publish(expecting(put("a", ""), 0)).Sequence; got != 3 {
		t.Errorf("wrote %d, not 3", got)
	}
	eventually(t, "the third entry", func() bool { return w.lastSequence() == 3 }, func() string { return "" })
	if len(w.entries) != 3 || w.entries[2].last != 0 {
		t.Errorf("the feed had %+v", w.entries)
	}
}
