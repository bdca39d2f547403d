package kvslots

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// maxLag is how old a peer's idea of the stream's time may be.
const maxLag = 4 * time.Second

// keyLog is every record of one key that the server ever took, in order, and the
// checks that an unclean stop at any moment would revive none of them.
type keyLog []entry.Entry

// check holds that a record lives as long as it must, and not much longer than
// that and until assumed.
func (l keyLog) check(t rapid.TB, e entry.Entry, assumed time.Time) {
	t.Helper()
	own := e.Time.Add(entry.MarkerTTL) // how long the record lives by itself
	if !e.Marker {
		own = e.Time.Add(lifeOfValue(e))
	}
	needed := own
	if assumed.After(needed) {
		needed = assumed
	}
	for _, earlier := range l {
		if earlier.Marker || earlier.Life == 0 {
			continue
		}
		switch end := earlier.Expires(); {
		case e.Marker && e.Expires().Before(end):
			t.Fatalf("a marker ends %v before an earlier record", end.Sub(e.Expires()))
		case !e.Marker && e.Life > 0 && e.Expires().Add(entry.MarkerSlack).Before(end):
			t.Fatalf("a value ends %v before an earlier record", end.Sub(e.Expires()))
		}
		if end := earlier.Time.Add(lifeOfValue(earlier)); end.After(needed) {
			needed = end
		}
	}
	if longest := needed.Add(entry.MarkerSlack + maxLag + time.Second); e.Life > 0 && e.Expires().After(longest) {
		t.Fatalf("a record ends %v after anything that it has to outlive", e.Expires().Sub(longest))
	}
}

// lifeOfValue is how long a value lives by itself.
func lifeOfValue(e entry.Entry) time.Duration {
	switch e.Key.Kind {
	case entry.Slot:
		return e.Slot.TTL.Duration() + guard
	case entry.Session:
		return e.Session.Left() + guard
	case entry.Ticket:
		if e.Wait.Enqueued() {
			return enqueuedLife + guard
		}
		return e.Wait.Wait.Duration() + guard
	}
	return e.Life
}

// Whatever is written under one key, by peers that lag and peers that came later,
// no marker ends before an earlier record does.
func TestMarkersOutliveEveryEarlierRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := newOneKey(t, 3)
		t.Repeat(map[string]func(*rapid.T){
			"claim": func(t *rapid.T) {
				k.write(t, k.claim(time.Duration(rapid.SampledFrom([]int{1, 30, 3600}).Draw(t, "ttl"))*time.Second))
			},
			"purge": func(t *rapid.T) { k.write(t, purge(k.key, k.revision(), 0)) },
			"see":   func(t *rapid.T) { k.drawPeer(t).see(k, rapid.IntRange(0, 3).Draw(t, "entries")) },
			"join":  func(t *rapid.T) { *k.drawPeer(t) = keyPeer{world: rules.New(), seen: max(0, len(k.log)-1)} },
			"wait": func(t *rapid.T) {
				k.wait(time.Duration(rapid.SampledFrom([]int{1, 900, 30_000, 130_000, 700_000, 4_000_000}).Draw(t, "ms")) * time.Millisecond)
			},
		})
	})
}

// The lives of a busy key's records do not grow by being handed on, though each
// is rounded up and written by a peer that lags.
func TestLivesDoNotAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := newOneKey(t, 1)
		for cycle := range 50 {
			ttl := time.Second
			if cycle == 0 {
				ttl = time.Hour
			}
			k.write(t, k.claim(ttl))
			k.peers[0].see(k, 1)
			k.write(t, purge(k.key, k.revision(), 0))
			k.peers[0].see(k, 1)
		}
	})
}

// oneKey is a key at the server.
type oneKey struct {
	t     *rapid.T
	key   entry.Key
	now   time.Time
	log   keyLog // all records, each of them the current one in its time
	gone  bool   // the last one has expired, and so has the server's marker of it
	peers []*keyPeer

	assumed time.Time // until when some peer had to assume that a record may come back
}

// keyPeer is a peer's view of the key.
type keyPeer struct {
	world *rules.World
	lives lives
	seen  int // records of the log
	own   uint64
}

func newOneKey(t *rapid.T, peers int) *oneKey {
	k := &oneKey{t: t, now: time.Unix(1795218878, 0), key: entry.Key{Kind: entry.Slot, Pool: randomHash()}}
	for range peers {
		k.peers = append(k.peers, &keyPeer{world: rules.New()})
	}
	return k
}

// claim is a claim over what stands there now.
func (k *oneKey) claim(ttl time.Duration) *record {
	value := entry.SlotValue{Lease: randomHash(), Claimer: randomHash(), Incarnation: 1, TTL: entry.Span(ttl)}
	return write(k.key, value, k.revision(), ttl)
}

func (k *oneKey) drawPeer(t *rapid.T) *keyPeer { return rapid.SampledFrom(k.peers).Draw(t, "peer") }

// see applies the next records that have not been overwritten: the last one.
func (p *keyPeer) see(k *oneKey, atMost int) {
	for range atMost {
		if p.seen >= len(k.log) {
			break
		}
		e := k.log[p.seen]
		p.seen++
		p.world.Apply(e, rules.Instant(e.Time.Sub(time.Unix(0, 0))), 0)
	}
}

// wait lets time pass. Every peer hears of the time, as it does from its own
// presence.
func (k *oneKey) wait(d time.Duration) {
	k.now = k.now.Add(d)
	if last := len(k.log) - 1; last >= 0 && !k.gone && k.now.After(k.log[last].Expires()) {
		if !k.log[last].Marker { // the server's own marker: nothing may end after that
			for _, earlier := range k.log {
				if !earlier.Marker && earlier.Expires().After(k.log[last].Expires().Add(entry.MarkerTTL)) {
					k.t.Fatalf("the key expired, and an earlier record is still there: %+v", earlier)
				}
			}
		}
		k.gone = true
	}
}

// revision is the key's last revision.
func (k *oneKey) revision() uint64 {
	if k.gone || len(k.log) == 0 {
		return 0
	}
	return k.log[len(k.log)-1].Revision
}

// write has some peer write a record, if it may.
func (k *oneKey) write(t *rapid.T, r *record) {
	p, expected := k.drawPeer(t), r.expected
	_, known := p.world.Revivable(k.key, expected)
	if expected != 0 && !known && p.own != expected {
		return // it would not write over what it has not seen
	}
	lag := time.Duration(rapid.IntRange(0, int(maxLag/time.Millisecond)).Draw(t, "lag in ms")) * time.Millisecond
	p.lives.streamTime = k.now.Add(-lag)
	p.lives.settle(r, p.world, randomHash())
	e := entry.Parse(k.key.String(), uint64(len(k.log)+1), k.now, r.Header.Get, r.Data)
	if e.Corrupt != nil {
		t.Fatal(e.Corrupt)
	}
	// A peer that purges its own claim before it has seen it reckons with the
	// longest life that it ever wrote.
	if expected != 0 && !known {
		k.assumed = k.now.Add(time.Hour + guard)
	}
	k.log.check(t, e, k.assumed)
	k.log, k.gone, p.own = append(k.log, e), false, e.Revision
	k.now = k.now.Add(time.Millisecond)
}

// recorder collects what a peer's view is given.
type recorder struct {
	mu   sync.Mutex
	logs map[entry.Key]keyLog
}

func (r *recorder) hook(m *nats.Msg, next func(*nats.Msg)) {
	if meta, err := m.Metadata(); err == nil {
		e := entry.Parse(strings.TrimPrefix(m.Subject, subjectPrefix), meta.Sequence.Stream, meta.Timestamp, m.Header.Get, m.Data)
		r.mu.Lock()
		r.logs[e.Key] = append(r.logs[e.Key], e)
		r.mu.Unlock()
	}
	next(m)
}

// check checks every record of every key, and returns how many markers and
// deletions of each kind there were.
func (r *recorder) check(t *testing.T) map[entry.Kind]int {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	markers := map[entry.Kind]int{}
	for key, log := range r.logs {
		for i, e := range log {
			log[:i].check(t, e, time.Time{})
			if e.Marker || e.Config.Deleted {
				markers[key.Kind]++
			}
		}
	}
	return markers
}

// What was returned, released, ended and deleted stays so after an unclean stop:
// see entry.MarkerTTL. The records that the server was given say so.
func TestRecordsOfARealServer(t *testing.T) {
	srv := kvslotstest.Start(t, "")
	r := &recorder{logs: map[entry.Key]keyLog{}}
	s, err := open(t.Context(), srv.Connect(), Config{}, r.hook)
	if err != nil {
		t.Fatal(err)
	}
	ctx, pool := t.Context(), uuid.New()
	if _, err := s.Register(ctx, pool, 1); err != nil {
		t.Fatal(err)
	}
	for _, ttl := range []time.Duration{time.Hour, time.Second, time.Minute, time.Second} {
		lease, err := s.Borrow(ctx, pool, ttl, 0)
		if err != nil {
			t.Fatal(err)
		}
		if ttl == time.Minute { // renewed for less than it had
			if err := lease.Renew(ctx, time.Second); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Borrow(ctx, pool, time.Second, 10*time.Millisecond); err == nil {
			t.Fatal("lent twice")
		}
		if returned, err := lease.Return(ctx); !returned || err != nil {
			t.Fatal(returned, err)
		}
	}
	holder, waiter := newSession(t, s, time.Hour), newSession(t, s, time.Minute)
	held := mustHold(t, s, holder, Lock("k"))
	if _, acquired, err := s.Enqueue(ctx, waiter, Lock("k"), time.Minute); acquired || err != nil {
		t.Fatal(acquired, err)
	}
	mustLetGo(t, s, holder, Lock("k"), held)
	g, err := s.Wait(ctx, waiter, Lock("k"), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	mustLetGo(t, s, waiter, Lock("k"), g)
	endAll(t, s, holder, waiter)
	if err := s.Delete(ctx, pool); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	markers := r.check(t)
	for kind, least := range map[entry.Kind]int{entry.Slot: 6, entry.Ticket: 2, entry.Session: 2, entry.Config: 1} {
		if markers[kind] < least {
			t.Errorf("only %d markers of kind %d were seen", markers[kind], kind)
		}
	}
	for key, log := range r.logs {
		if last := log[len(log)-1]; key.Kind == entry.Config && (!last.Config.Deleted || last.Life != entry.DeletedLife) {
			t.Errorf("the deletion of a pool is %+v", last)
		}
	}
}

// What a peer wrote and has not seen yet is outlived even if its presence has
// been lost since.
func TestMarkerOfAnUnseenRecord(t *testing.T) {
	self, client, now := randomHash(), randomHash(), time.Unix(1795218878, 0)
	ticket := func(session entry.Hash) entry.Key {
		return entry.Key{Kind: entry.Ticket, Pool: randomHash(), Session: session}
	}
	for name, c := range map[string]struct {
		key  entry.Key
		self entry.Hash // when it is purged
	}{
		"slot":                     {entry.Key{Kind: entry.Slot, Pool: randomHash()}, self},
		"slot, presence lost":      {entry.Key{Kind: entry.Slot, Pool: randomHash()}, entry.Hash{}},
		"ticket":                   {ticket(self), self},
		"ticket, presence lost":    {ticket(self), entry.Hash{}},
		"ticket, another presence": {ticket(self), randomHash()},
		"client's ticket":          {ticket(client), self},
	} {
		t.Run(name, func(t *testing.T) {
			l := lives{streamTime: now}
			l.settle(write(c.key, entry.TicketValue{}, 0, time.Hour), rules.New(), self)
			r := purge(c.key, 7, 0)
			l.settle(r, rules.New(), c.self)
			want := entry.FormatLife(time.Hour + guard + entry.MarkerSlack)
			if got := r.Header.Get(entry.HeaderTTL); got != want {
				t.Errorf("the marker lives for %s, want %s", got, want)
			}
		})
	}
}
