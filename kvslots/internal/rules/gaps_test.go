package rules_test

import (
	"maps"
	"runtime"
	"testing"

	"pgregory.net/rapid"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// reader reads a stream behind a pipe: what has been sent to it stays as it was,
// and what is overwritten before it was sent is never seen.
type reader struct {
	stream   *stream
	gaps     rules.Gaps
	sent     uint64 // the highest sequence in the pipe or behind it
	pipe     []entry.Entry
	revision uint64
	view     map[entry.Key]uint64
}

func newReader(s *stream) *reader { return &reader{stream: s, view: map[entry.Key]uint64{}} }

// send puts the next entry into the pipe.
func (r *reader) send() {
	if e, ok := r.stream.after(r.sent); ok {
		r.sent = e.Revision
		r.pipe = append(r.pipe, e)
	}
}

// read takes one entry out of the pipe.
func (r *reader) read() {
	if len(r.pipe) == 0 {
		return
	}
	e := r.pipe[0]
	r.pipe = r.pipe[1:]
	if e.Revision > r.revision+1 {
		r.gaps.Skip(r.revision+1, e.Revision-1)
	}
	r.gaps.Explain(e.Previous)
	r.revision = e.Revision
	r.view[e.Key] = e.Revision
}

// truth is the last revision of each key when the stream stood where the reader
// does.
func (r *reader) truth() map[entry.Key]uint64 {
	truth := map[entry.Key]uint64{}
	for _, e := range r.stream.log[:r.revision] {
		truth[e.Key] = e.Revision
	}
	return truth
}

// barrier is one that is under way.
type barrier struct{ sent, sequence uint64 }

// drawWrite writes to one of a few keys, so that most are soon overwritten; now
// and then without saying what it overwrites, as the server does.
func drawWrite(t *rapid.T, s *stream) {
	key := configKey(poolID(rapid.IntRange(0, 3).Draw(t, "key")))
	if rapid.IntRange(0, 9).Draw(t, "server") == 0 {
		s.put(marker(key))
		return
	}
	s.write(config(key.Pool, 1, 1), s.revision(key))
}

func TestGapsAgainstNaive(t *testing.T) {
	exact, inexact := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		s := newStream()
		r := newReader(s)
		var ordered []barrier // behind what the leader had then, and not reached yet
		asked := uint64(0)    // where the reader stood when it asked for one; +1
		for range rapid.IntRange(10, 120).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"write", "write", "write", "send", "send", "read", "read", "ask", "order"}).Draw(t, "step") {
			case "write":
				drawWrite(t, s)
			case "send":
				r.send()
			case "read":
				r.read()
			case "ask":
				asked = r.revision + 1
			case "order":
				if asked > 0 {
					ordered = append(ordered, barrier{asked - 1, s.sequence})
					asked = 0
				}
			}
			for len(ordered) > 0 && ordered[0].sequence <= r.revision {
				r.gaps.Reached(ordered[0].sent)
				ordered = ordered[1:]
			}
			if !r.gaps.Exact() {
				inexact++
				continue
			}
			exact++
			if truth := r.truth(); !maps.Equal(r.view, truth) {
				t.Fatalf("said to be exact at %d: %v, and is not: %v", r.revision, r.view, truth)
			}
		}
		for r.send(); len(r.pipe) > 0; r.send() {
			r.read()
		}
		r.gaps.Reached(r.revision)
		if !r.gaps.Exact() {
			t.Fatal("not exact after a barrier behind which nothing was skipped")
		}
	})
	t.Logf("%d steps with an exact view, %d without", exact, inexact)
	if exact == 0 || inexact == 0 {
		t.Error("both must have happened")
	}
}

// What the barrier alone accounted for is told apart from what an entry named.
func TestGapsUnnamed(t *testing.T) {
	var g rules.Gaps
	g.Skip(3, 6)
	g.Explain(4)
	g.Skip(8, 8)
	g.Explain(8)
	g.Reached(9)
	if !g.Exact() {
		t.Fatal("not exact")
	}
	for sequence, want := range map[uint64]bool{2: false, 3: true, 4: false, 5: true, 6: true, 7: false, 8: false} {
		if g.Unnamed(sequence, sequence) != want {
			t.Errorf("%d unnamed: %v", sequence, !want)
		}
	}
	if !g.Unnamed(0, 3) || !g.Unnamed(6, 100) || g.Unnamed(7, 100) {
		t.Error("a stretch that touches is a stretch that does not")
	}
	g.Skip(20, 20)
	g.Explain(20)
	if g.Unnamed(0, 100) {
		t.Error("what was before the view was exact last is still unnamed")
	}
}

// designRule is the rule as it was first thought of: exact at a sequence is a
// view that has reached a barrier which was sent after the jump was seen, unless
// there are new jumps at or below that sequence.
type designRule struct{ open []uint64 }

func (d *designRule) skip(low, high uint64) {
	for ; low <= high; low++ {
		d.open = append(d.open, low)
	}
}

// reached forgives the jumps that were seen before the barrier was sent.
func (d *designRule) reached(sent uint64) {
	var later []uint64
	for _, s := range d.open {
		if s > sent {
			later = append(later, s)
		}
	}
	d.open = later
}

func (d *designRule) exactAt(sequence uint64) bool {
	for _, s := range d.open {
		if s <= sequence {
			return false
		}
	}
	return true
}

// TestChainOfSkips is the shortest history in which that rule over-issues. A key
// is overwritten again and again ahead of the view: 2, 4, 6. The jump over 2 was
// seen before the barrier was sent, and what overwrote 2 is below the barrier;
// but it is 4, which is skipped too.
func TestChainOfSkips(t *testing.T) {
	s, pool := newStream(), poolID(0)
	resize := func(count int) {
		s.write(config(pool, count, 1), s.revision(configKey(pool)))
	}
	lend := func(position int) {
		s.write(claim(slotKey(pool, position), entry.SlotValue{Lease: leaseID(position), Incarnation: 1}), 0)
	}
	w, naive, rule := rules.New(), newNaive(), designRule{}
	sees := func(sequence uint64) {
		if sequence > w.Revision+1 {
			rule.skip(w.Revision+1, sequence-1)
		}
		w.Apply(s.log[sequence-1], s.instant(), 0)
	}
	resize(1)
	sees(1)
	resize(0) // 2, skipped
	lend(0)   // 3
	sees(3)
	resize(0) // 4 over 2, skipped
	sent := w.Revision
	s.put(entry.Entry{Key: barrierKey(sessionID(0))}) // 5
	resize(0)                                         // 6 over 4, which is not delivered therefore
	sees(5)
	rule.reached(sent)
	w.Reached(sent, s.instant())

	for _, e := range s.log[:3] {
		naive.apply(e, s.instant(), 0)
	}
	if naive.judge(s.log[2], s.instant()) != rules.Void {
		t.Fatal("the claim must be void")
	}
	if !rule.exactAt(3) || w.Pool(pool).Count() != 1 {
		t.Error("the old rule does not believe, wrongly, in the count of 1")
	}
	if w.Exact() || w.Pool(pool).Slot(0).Verdict() != rules.Open {
		t.Errorf("exact: %v, verdict: %d; want it open", w.Exact(), w.Pool(pool).Slot(0).Verdict())
	}
	sees(6) // names 4; what overwrote 2 is delivered or named now
	if v := w.Pool(pool).Slot(0).Verdict(); !w.Exact() || v == rules.Open || v == rules.Good {
		t.Errorf("exact: %v, verdict: %d; want it not granted", w.Exact(), v)
	}
}

// However much is skipped, what is kept of it is bounded.
func TestGapsAreBounded(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var g rules.Gaps
	const jumps = 1_000_000
	for i := range uint64(jumps) {
		g.Skip(3*i+1, 3*i+2)
		if i%3 == 0 {
			g.Explain(3*i + 1)
		}
		if g.Exact() {
			t.Fatalf("exact after %d jumps", i)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("%d bytes are kept", grown)
	}
	g.Reached(3*jumps - 100)
	if g.Exact() {
		t.Error("exact, though there were jumps between where the view stood and the barrier")
	}
	g.Reached(3 * jumps)
	if !g.Exact() {
		t.Error("not exact after a barrier behind which nothing was skipped")
	}
	if !g.Unnamed(1, 1) {
		t.Error("a gap that was forgotten counts as named")
	}
	runtime.KeepAlive(&g)
}

// When too much was skipped to be told apart, only a barrier accounts for it that
// was sent behind all of it.
func TestGapsBeyondTelling(t *testing.T) {
	var g rules.Gaps
	last := uint64(0)
	for i := range uint64(1025) { // one more than is told apart
		last = 2*i + 1
		g.Skip(last, last)
	}
	g.Explain(last)
	g.Reached(last - 1)
	if g.Exact() {
		t.Error("exact by a barrier that was sent too early")
	}
	g.Reached(last + 1)
	if !g.Exact() {
		t.Error("not exact")
	}
}

// Neither an entry that names what was not skipped, nor a barrier without a gap,
// does anything.
func TestGapsOfNothing(t *testing.T) {
	var g rules.Gaps
	g.Explain(0)
	g.Explain(7)
	g.Reached(0)
	g.Reached(5)
	g.Skip(3, 3)
	g.Explain(2)
	g.Explain(4)
	if g.Exact() {
		t.Error("3 is accounted for by nothing")
	}
	if g.Explain(3); !g.Exact() {
		t.Error("3 was named")
	}
}
