package stream_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/internal/sim/stream"
)

const (
	feedStream = "KV_kvslots"
	feedPrefix = "_KVSLOTS.k3w9x2."

	// unanswered is how long a writer waits for an answer before it sends another write in
	// place of this one. The answer may still come.
	unanswered = 2 * time.Second
)

// withFeed lets a stream republish what it stores.
func withFeed(cfg jetstream.StreamConfig) jetstream.StreamConfig {
	cfg.RePublish = &jetstream.RePublish{Source: prefixOf(cfg.Name) + ">", Destination: feedPrefix + ">"}
	return cfg
}

// feedEntry is a message of the feed.
type feedEntry struct {
	stream.Stored
	last    uint64 // Nats-Last-Sequence: the key's revision before this one, or 0
	arrived time.Time
	epoch   uint64 // how often the connection had been made anew
}

// same reports whether two messages of the feed are repetitions of one entry.
func (e feedEntry) same(f feedEntry) bool {
	return describe(e.Stored) == describe(f.Stored) && e.Time.Equal(f.Time) && e.last == f.last
}

// headerAuthor identifies a write of these tests.
const headerAuthor = "Test-Author"

func (e feedEntry) author() string { return e.Header.Get(headerAuthor) }

// answer is an answer to a write, in the order of the channel.
type answer struct {
	stream.Ack
	noResponders bool
	after        time.Duration
	fedBefore    bool // the write's entry had come by the feed
	reached      bool // the named revision was in the view
	sameEpoch    bool // the connection has lasted since the write was sent
}

func (a answer) refused() bool { return a.Code != 0 && !a.noResponders }

// sent is a write.
type sent struct {
	at      time.Time
	epoch   uint64
	fed     bool // its entry has come by the feed
	answers []answer
}

// wire is a connection on which the feed and the answers to writes come in by one channel, as
// in a peer.
type wire struct {
	t       testing.TB
	nc      *nats.Conn
	replies string // prefix of the answers' subjects
	in      chan *nats.Msg
	random  *rand.Rand

	mu       sync.Mutex
	entries  []feedEntry // each sequence once, in the order of arrival
	seen     map[uint64]feedEntry
	heads    map[string]uint64 // the last revision of each key
	writes   map[string]*sent  // by author
	free     int               // writes that may be sent
	repeated int
	late     int // entries that came after a later one, for the first time
}

// openWire subscribes to the feed. It stops at the end of the test.
func openWire(t testing.TB, nc *nats.Conn, seed uint64) *wire {
	t.Helper()
	w := &wire{
		t: t, nc: nc, replies: nc.NewInbox() + ".", in: make(chan *nats.Msg, 1<<16), random: rand.New(rand.NewPCG(seed, 1)),
		seen: map[uint64]feedEntry{}, heads: map[string]uint64{}, writes: map[string]*sent{}, free: 16,
	}
	var subs []*nats.Subscription
	for _, subject := range []string{feedPrefix + ">", w.replies + "*"} {
		sub, err := nc.ChanSubscribe(subject, w.in)
		natstest.Must(t, err)
		subs = append(subs, sub)
	}
	natstest.Must(t, nc.FlushTimeout(answerTimeout))
	var all sync.WaitGroup
	stop := make(chan struct{})
	all.Go(func() {
		for {
			select {
			case m := <-w.in:
				w.receive(m)
			case <-stop:
				return
			}
		}
	})
	t.Cleanup(func() {
		for _, sub := range subs {
			_ = sub.Unsubscribe()
		}
		close(stop)
		all.Wait()
	})
	return w
}

func (w *wire) epoch() uint64 { return w.nc.Stats().Reconnects }

func (w *wire) receive(m *nats.Msg) {
	epoch := w.epoch()
	w.mu.Lock()
	defer w.mu.Unlock()
	if author, ok := strings.CutPrefix(m.Subject, w.replies); ok {
		w.answered(author, m, epoch)
		return
	}
	e, err := parseFeed(m)
	if err != nil {
		w.t.Errorf("%s %v: %v", m.Subject, m.Header, err)
		return
	}
	e.epoch, e.arrived = epoch, time.Now()
	if before, ok := w.seen[e.Sequence]; ok {
		if w.repeated++; !e.same(before) {
			w.t.Errorf("one sequence, two entries:\n%s %v %d\n%s %v %d", describe(before.Stored), before.Time, before.last, describe(e.Stored), e.Time, e.last)
		}
		return
	}
	if n := len(w.entries); n > 0 && w.entries[n-1].Sequence > e.Sequence {
		if w.late++; w.entries[n-1].epoch == epoch {
			w.t.Errorf("%d came after %d", e.Sequence, w.entries[n-1].Sequence)
		}
	} else {
		w.entries = append(w.entries, e)
	}
	w.seen[e.Sequence] = e
	w.heads[e.Key] = max(w.heads[e.Key], e.Sequence)
	if s := w.writes[e.author()]; s != nil {
		s.fed = true
	}
}

func (w *wire) answered(author string, m *nats.Msg, epoch uint64) {
	s := w.writes[author]
	if len(s.answers) == 0 {
		w.free++
	}
	a := answer{sameEpoch: s.epoch == epoch, after: time.Since(s.at), fedBefore: s.fed}
	if m.Header.Get("Status") == "503" {
		a.noResponders, a.Code = true, 503
	} else {
		a.Ack = parseAck(w.t, m)
	}
	e, fed := w.seen[a.Sequence]
	if a.Code == 0 {
		if !fed && a.sameEpoch {
			w.t.Errorf("the ack of %d came before its entry", a.Sequence)
		}
		if fed && e.author() != author {
			w.t.Errorf("%d was acknowledged to %s, but %s wrote it", a.Sequence, author, e.author())
		}
	}
	a.reached = a.Revision > 0 && w.entries != nil && w.entries[len(w.entries)-1].Sequence >= a.Revision
	s.answers = append(s.answers, a)
}

// parseFeed parses a message of the feed. The server adds its headers behind those of the
// write, which may have the same names: the last value is the server's.
func parseFeed(m *nats.Msg) (e feedEntry, err error) {
	added := func(name string) string {
		if all := m.Header.Values(name); len(all) > 0 {
			return all[len(all)-1]
		}
		return ""
	}
	if e.Sequence, err = strconv.ParseUint(added("Nats-Sequence"), 10, 64); err != nil {
		return e, err
	}
	if e.last, err = strconv.ParseUint(added("Nats-Last-Sequence"), 10, 64); err != nil {
		return e, err
	}
	if e.Time, err = time.Parse(time.RFC3339Nano, added("Nats-Time-Stamp")); err != nil {
		return e, err
	}
	e.Key, e.Header, e.Data = strings.TrimPrefix(m.Subject, feedPrefix), parseHeader(m.Header), m.Data
	if name, subject := added("Nats-Stream"), added("Nats-Subject"); name != feedStream || subject != prefixOf(name)+e.Key {
		return e, fmt.Errorf("stream %q, subject %q", name, subject)
	}
	return e, nil
}

// write sends a random write, unless too many writes are unanswered: mostly to one of a few
// hot keys, with the revision that the feed has shown.
func (w *wire) write(keys int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.free <= 0 {
		return
	}
	key := fmt.Sprint("k.", w.random.IntN(keys))
	m := put(key, pick(w.random, "", "", "", "", "", "1s"))
	if w.random.IntN(3) == 0 {
		m = purgeOf(key, 0, pick(w.random, "", "1h"))
	}
	if w.random.IntN(8) > 0 { // some writers of keys expect nothing
		m = expecting(m, w.heads[key])
	} else {
		m.Header.Expected = nil
	}
	author := fmt.Sprint(w.random.Uint64())
	if w.random.IntN(40) == 0 {
		m = expecting(put("e."+author, "1s"), 0) // is left to expire
	}
	m.Header.Other = map[string]string{headerAuthor: author}
	msg := (&realStream{name: feedStream}).message(m)
	msg.Reply = w.replies + author
	w.free--
	w.writes[author] = &sent{at: time.Now(), epoch: w.epoch()}
	_ = w.nc.PublishMsg(msg) // while the connection is away, the client sends it later
}

// abandonOld lets other writes be sent in place of those that have no answer.
func (w *wire) abandonOld() {
	w.mu.Lock()
	defer w.mu.Unlock()
	pending := 0
	for _, s := range w.writes {
		if len(s.answers) == 0 && time.Since(s.at) < unanswered {
			pending++
		}
	}
	w.free = 16 - pending
}

// lastSequence returns the last sequence that came by the feed.
func (w *wire) lastSequence() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.entries); n > 0 {
		return w.entries[n-1].Sequence
	}
	return 0
}

func (w *wire) answeredAll() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.writes {
		if len(s.answers) == 0 {
			return false
		}
	}
	return true
}

// firstNew returns how long after a time the first entry came that this wire wrote after it, or
// 0.
func (w *wire) firstNew(than time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.entries {
		if s := w.writes[e.author()]; s != nil && s.at.After(than) {
			return e.arrived.Sub(than)
		}
	}
	return 0
}
