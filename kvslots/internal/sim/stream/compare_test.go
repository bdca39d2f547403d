package stream_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/internal/sim/stream"
)

var seed = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of random tests")

// The same random sequences of writes, reads, watches, expiries, purges and kills have
// the same results on the model and on a real server.
func TestAgainstServer(t *testing.T) {
	t.Logf("go test ./kvslots/internal/sim/stream -seed %d", *seed)
	dir := t.TempDir()
	nc := natstest.Start(t, dir).Connect()
	var pairs []*pair
	for n := range uint64(24) {
		pairs = append(pairs, randomPair(t, nc, n))
	}
	var older string // the server's directory after the first round
	for round := range 2 {
		for _, p := range pairs {
			p.write(pick(p.random, 60, 60, 3, 0)) // a slow machine writes as little
		}
		pairs = settleAll(t, pairs)
		if round == 0 {
			older = copyDir(t, dir)
			for _, p := range pairs {
				p.saved, p.emptied = p.model.Info().Last, false
			}
		}
	}
	killed := natstest.Start(t, copyDir(t, dir)).Connect()
	cut := natstest.Start(t, older).Connect()
	met := map[stream.Trap]int{}
	for n, p := range pairs {
		p.compareWatch()
		p.model.SetTraps(func(o *stream.Traps) { o.ReviveAfterKill = true })
		if n%4 >= 2 && !p.emptied { // the model's lost tail does not bring back unlinked blocks, as the copy does
			p.model.LoseTail(p.model.Info().Last-p.saved, p.now)
			p.reopen(cut)
		} else {
			p.model.Kill(p.now)
			p.reopen(killed)
		}
		met[stream.Revived] += p.model.Met(stream.Revived)
		met[stream.TailLost] += p.model.Met(stream.TailLost)
	}
	settleAll(t, pairs)
	t.Logf("%d sequences, met: %v", len(pairs), met)
}

func randomPair(t *testing.T, nc *nats.Conn, n uint64) *pair {
	random := rand.New(rand.NewPCG(*seed, n))
	// The server's markers expire within the test in one case, and not in the other.
	markerTTL := []time.Duration{time.Second, time.Hour}[n%2]
	first := []uint64{1, 1 + random.Uint64N(1000), uint64(time.Now().UnixMicro())}[random.IntN(3)]
	real := createReal(t, nc, realConfig(fmt.Sprintf("KV_%d", n), 1, first, markerTTL))
	return newPair(t, real, random, first, markerTTL)
}

// settleAll lets everything expire that has a short TTL, and returns the pairs that
// could be compared.
func settleAll(t *testing.T, pairs []*pair) (left []*pair) {
	t.Helper()
	for _, p := range pairs {
		if !p.abandoned {
			left = append(left, p)
		}
	}
	if len(left) == 0 {
		t.Skip("the machine is too slow to compare")
	}
	if t.Failed() {
		t.FailNow()
	}
	for _, p := range left {
		if p.settle(10 * time.Second); !p.abandoned {
			p.compareNow()
		}
	}
	return slices.DeleteFunc(left, func(p *pair) bool { return p.abandoned })
}

// compareNow compares everything that can be read.
func (p *pair) compareNow() {
	p.t.Helper()
	p.compareInfo()
	p.compareGet(0, 10_000)
	p.compareConsumer(1)
}

// write does n random operations on both.
func (p *pair) write(n int) {
	for range n {
		if p.slow() || !p.step() || p.t.Failed() {
			return
		}
	}
	p.compareNow()
}

func (p *pair) step() bool {
	info := p.model.Info()
	from := info.First - min(info.First, 2) + p.random.Uint64N(info.Last-info.First+6)
	switch p.random.IntN(20) {
	case 0:
		return p.compareGet(from, 1+p.random.IntN(8))
	case 1:
		return p.compareConsumer(max(from, 1))
	case 2:
		return p.compareInfo()
	case 3, 4:
		return p.publish(p.barrier(info))
	case 5, 6, 7, 8, 9:
		return p.publish(p.marker())
	case 10:
		if p.random.IntN(4) > 0 {
			return true
		}
		return p.purge()
	default:
		return p.publish(p.value())
	}
}

func (p *pair) value() stream.Message {
	m := stream.Message{Key: p.key(), Data: fmt.Appendf(nil, `{"n":%d}`, p.random.IntN(1000))}
	m.Header.Expected = p.expected(m.Key)
	m.Header.TTL = pick(p.random, "", "", "1s", "1s", "2s", "2", "1500ms", "500ms", "never", "x", "-1", "0", "00", "1h")
	if p.random.IntN(4) == 0 {
		m.Header.Other = map[string]string{"Kvslots-Author": fmt.Sprint(p.random.IntN(100))}
	}
	return m
}

func (p *pair) marker() stream.Message {
	m := stream.Message{Key: p.key()}
	m.Header.Expected = p.expected(m.Key)
	m.Header.Operation = pick(p.random, "PURGE", "PURGE", "PURGE", "DEL")
	m.Header.TTL = pick(p.random, "", "1s", "1s", "2s", "1h")
	return m
}

// barrier returns a write that expects a last sequence of the stream, mostly a wrong
// one.
func (p *pair) barrier(info stream.Info) stream.Message {
	last := pick(p.random, 1, 1, 1, info.Last, info.Last+1, info.First)
	m := stream.Message{Key: p.key(), Header: stream.Header{ExpectedLast: &last}}
	if p.random.IntN(3) == 0 {
		m.Header.Expected = p.expected(m.Key)
	}
	return m
}

// purge purges both streams.
func (p *pair) purge() bool {
	if err := p.real.stream.Purge(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	p.model.Purge(p.now)
	p.emptied = true
	return p.compareInfo()
}

func (p *pair) key() string { return p.keys[p.random.IntN(len(p.keys))] }

// expected returns the revision that a write expects of its key, which is right or
// wrong.
func (p *pair) expected(key string) *uint64 {
	stands, _ := p.model.Get(key)
	right := stands.Sequence
	info := p.model.Info()
	switch p.random.IntN(12) {
	case 0:
		return nil
	case 1:
		return new(uint64(0))
	case 2:
		return new(info.Last)
	case 3:
		return new(right + 1)
	case 4:
		return new(info.First)
	}
	return &right
}

func pick[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }

// reopen goes on with a server that was started on another one's directory.
func (p *pair) reopen(nc *nats.Conn) {
	p.real = openReal(p.t, nc, p.real.name)
	p.watch = startWatch(p.t, p.real, 1)
	p.modelConsumer, p.modelSeen = p.model.Consumer(1), nil
	p.drainModel()
}
