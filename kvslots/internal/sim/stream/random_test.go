package stream_test

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/sim/stream"
)

// wild is a stream with all traps, random requests and random faults.
type wild struct {
	t       *testing.T
	random  *rand.Rand
	stream  *stream.Stream
	now     time.Time
	watches []*stream.Consumer
	log     []byte // answers and deliveries
}

func newWild(t *testing.T, seed uint64, replicas int) *wild {
	random := rand.New(rand.NewPCG(seed, 1))
	o := stream.Options{Replicas: replicas, Traps: stream.Measured()}
	return &wild{t: t, random: random, stream: stream.New(o, rand.New(rand.NewPCG(seed, 2)), start), now: start}
}

func (w *wild) run(steps int) {
	for range steps {
		w.now = w.now.Add(time.Duration(w.random.ExpFloat64() * float64(pick(w.random, time.Millisecond, time.Second, 10*time.Second))))
		if at := w.stream.NextExpiry(); !at.IsZero() && w.random.IntN(8) == 0 {
			w.now = at // exactly when something happens
		}
		if w.random.IntN(20) == 0 {
			w.fault()
		}
		w.note(w.stream.Publish(w.message(), w.now))
		w.read()
		w.check()
	}
}

func (w *wild) message() stream.Message {
	key := fmt.Sprint("k", w.random.IntN(8))
	m := put(key, pick(w.random, "", "1s", "3s", "2500ms", "600s"))
	if w.random.IntN(3) == 0 {
		m = purgeOf(key, 0, pick(w.random, "2s", "120s"))
	}
	stands, _ := w.stream.Get(key)
	m.Header.Expected = pick(w.random, nil, new(uint64(0)), &stands.Sequence, &stands.Sequence, &stands.Sequence)
	return m
}

func (w *wild) fault() {
	s := w.stream
	switch w.random.IntN(9) {
	case 0:
		s.BeginGap(w.now)
	case 1, 2:
		s.EndGap(w.now)
	case 3:
		s.ChangeLeader(time.Duration(w.random.Int64N(int64(20*time.Minute)))-10*time.Minute, w.random.IntN(2) == 0, w.now)
	case 4, 5:
		s.Kill(w.now)
	case 6:
		s.LoseTail(w.random.Uint64N(20), w.now)
	case 7:
		s.Compact(s.Info().Last - w.random.Uint64N(2))
	case 8:
		if w.random.IntN(4) == 0 {
			s.Purge(w.now)
		} else {
			s.Delete(w.now)
			s.Create(pick(w.random, 0, s.Info().First/2), w.now)
		}
	}
}

func (w *wild) read() {
	if len(w.watches) == 0 || w.random.IntN(30) == 0 {
		w.watches = append(w.watches, w.stream.Consumer(w.stream.Info().First))
	}
	c := w.watches[len(w.watches)-1]
	for w.random.IntN(3) > 0 {
		m, ok := c.Next()
		if !ok {
			break
		}
		w.note(describe(m), c.Delivered())
	}
	if w.random.IntN(10) == 0 {
		w.readBehind()
	}
}

// readBehind reads from a replica that is behind, and then catches up.
func (w *wild) readBehind() {
	c, last := w.stream.Consumer(w.stream.Info().First), w.stream.Info().Last
	c.Behind(last - min(last, w.random.Uint64N(4)))
	for range 6 {
		m, ok := c.Next()
		if !ok {
			c.CatchUp()
		}
		w.note(describe(m), c.Delivered())
	}
}

func (w *wild) note(what ...any) { w.log = fmt.Appendln(w.log, what...) }

// check checks that Info, Len, Get and All agree.
func (w *wild) check() {
	s := w.stream
	all, info, last := s.All(), s.Info(), uint64(0)
	for _, m := range all {
		if got, ok := s.Get(m.Key); !ok || got.Sequence != m.Sequence || m.Sequence <= last || m.Sequence > info.Last {
			w.t.Fatalf("%d under %s after %d, and %d to be got; last is %d", m.Sequence, m.Key, last, got.Sequence, info.Last)
		}
		last = m.Sequence
	}
	first := info.Last + 1
	if len(all) > 0 {
		first = all[0].Sequence
	}
	if len(all) != s.Len() || info.First != first {
		w.t.Fatalf("%d messages of %d, first %d of %d", len(all), s.Len(), info.First, first)
	}
	if at := s.NextExpiry(); !at.IsZero() && at.Before(w.now) {
		w.t.Fatalf("next expiry %s ago", w.now.Sub(at))
	}
}

// A seed determines a run of the model.
func TestRandomRunsRepeat(t *testing.T) {
	t.Logf("go test ./kvslots/internal/sim/stream -seed %d", *seed)
	for n := range uint64(10) {
		for _, replicas := range []int{1, 3} {
			one, two := newWild(t, *seed+n, replicas), newWild(t, *seed+n, replicas)
			one.run(1000)
			two.run(1000)
			if sha256.Sum256(one.log) != sha256.Sum256(two.log) {
				t.Fatalf("seed %d with %d replicas runs in two ways", *seed+n, replicas)
			}
		}
	}
}

// The runs of these seeds together meet every trap. The seeds are fixed:
// some traps are so rare that any other twenty runs may miss one.
func TestRandomRunsMeetEveryTrap(t *testing.T) {
	met := map[stream.Trap]int{}
	for n := range uint64(20) {
		for _, replicas := range []int{1, 3} {
			w := newWild(t, n, replicas)
			w.run(1000)
			for _, trap := range stream.AllTraps() {
				met[trap] += w.stream.Met(trap)
			}
		}
	}
	t.Logf("%v", met)
	for _, trap := range stream.AllTraps() {
		if met[trap] == 0 {
			t.Errorf("never met: %s", trap)
		}
	}
}

func BenchmarkPublish(b *testing.B) {
	s := stream.New(stream.Options{Traps: stream.Measured()}, rand.New(rand.NewPCG(1, 2)), start)
	c, now, revision := s.Consumer(0), start, uint64(0)
	b.ReportAllocs()
	for n := range b.N {
		now = now.Add(10 * time.Microsecond)
		m := expecting(put("k", "600s"), revision)
		if revision = s.Publish(m, now).Sequence; revision == 0 {
			b.Fatal("not written")
		}
		c.Next()
		if n%10_000 == 0 {
			s.Compact(revision)
		}
	}
}
