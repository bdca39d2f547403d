//go:build unix

package kvslots

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// These benchmarks compare two versions of the core: copy this file into the other one, and
// run both in turn. BenchmarkBorrow and BenchmarkLine include the server, which runs in this
// process. In the others, the server and the writing peer run in a process of their own.

// BenchmarkBorrow is borrow and return by 1, 64 and 512 callers, each with its own pool.
func BenchmarkBorrow(b *testing.B) {
	for _, callers := range []int{1, 64, 512} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			s := openPeers(b, natstest.Start(b, ""), 1)[0]
			pools := make([]uuid.UUID, callers)
			for i := range pools {
				pools[i] = newPool(b, s, 1)
			}
			measurePairs(b, callers, 0, func(i int) (*Store, uuid.UUID) { return s, pools[i] })
		})
	}
}

// BenchmarkLine is borrow and return by 16 callers of 1, 2 and 4 peers, who wait for one slot.
func BenchmarkLine(b *testing.B) {
	for _, peers := range []int{1, 2, 4} {
		b.Run(fmt.Sprint(peers), func(b *testing.B) {
			stores := openPeers(b, natstest.Start(b, ""), peers)
			pool := newPool(b, stores[0], 1)
			measurePairs(b, 16, time.Minute, func(i int) (*Store, uuid.UUID) { return stores[i%peers], pool })
		})
	}
}

// measurePairs measures b.N borrows and returns, and the median of the borrows.
func measurePairs(b *testing.B, callers int, wait time.Duration, of func(caller int) (*Store, uuid.UUID)) {
	b.ReportAllocs()
	var left atomic.Int64
	left.Store(int64(b.N))
	took := make([][]time.Duration, callers)
	var wg sync.WaitGroup
	b.ResetTimer()
	used := processorTime()
	for i := range callers {
		s, pool := of(i)
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				began := time.Now()
				l, err := s.Borrow(context.Background(), pool, time.Minute, wait)
				if err != nil {
					b.Error(err)
					return
				}
				took[i] = append(took[i], time.Since(began))
				if ok, err := s.Return(context.Background(), pool, l.ID()); !ok || err != nil {
					b.Error(ok, err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(processorTime()-used)/float64(b.N), "cpu-ns/op")
	all := slices.Concat(took...)
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "borrow-µs")
}

// BenchmarkListener is the processor time and the allocations of a peer that only listens to
// another one, for each of its entries. The other peer writes 5,000 a second.
func BenchmarkListener(b *testing.B) {
	nc := connectTo(b, "listen")
	s := openOn(b, nc)
	defer func() { _ = s.Close(context.Background()) }()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	first, used := lastSequence(b, nc), processorTime()
	b.ResetTimer()
	time.Sleep(time.Duration(b.N) * time.Second / listenRate)
	b.StopTimer()
	used, entries := processorTime()-used, lastSequence(b, nc)-first
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(used)/float64(entries), "cpu-ns/entry")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(entries), "allocs/entry")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(entries), "B/entry")
}

// BenchmarkIdle is the processor time of an idle peer: an op is a second.
func BenchmarkIdle(b *testing.B) {
	s := openOn(b, connectTo(b, "idle"))
	defer func() { _ = s.Close(context.Background()) }()
	used := processorTime()
	for b.Loop() {
		time.Sleep(time.Second)
	}
	b.ReportMetric(float64(processorTime()-used)/float64(b.N), "cpu-ns/op")
}

// BenchmarkLoad is Open of a bucket of 100,000 pools.
func BenchmarkLoad(b *testing.B) {
	nc := connectTo(b, "load")
	b.ReportAllocs()
	used := time.Duration(0)
	for b.Loop() {
		before := processorTime()
		s := openOn(b, nc)
		used += processorTime() - before
		b.StopTimer()
		if stats, err := s.Stats(b.Context()); err != nil || len(stats.Pools) != loadPools {
			b.Fatal(len(stats.Pools), err)
		}
		_ = s.Close(context.Background())
		b.StartTimer()
	}
	b.ReportMetric(float64(used)/float64(b.N), "cpu-ns/op")
}

const (
	listenRate  = 5000
	loadPools   = 100_000
	benchServer = "KVSLOTS_BENCH_SERVER" // the task of a process that runs TestBenchServer
)

// TestBenchServer is the server and the writing peer of a benchmark. It prints its URL, and
// ends when its input does.
func TestBenchServer(t *testing.T) {
	task := os.Getenv(benchServer)
	if task == "" {
		t.Skip("it is the server of a benchmark")
	}
	srv := natstest.Start(t, "")
	s := openPeers(t, srv, 1)[0]
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	switch task {
	case "listen":
		const writers = 10
		for range writers {
			pool := newPool(t, s, 10)
			wg.Go(func() { write(ctx, t, s, pool, 2*writers*time.Second/listenRate) })
		}
	case "load":
		var left atomic.Int64
		left.Store(loadPools)
		for range 256 {
			wg.Go(func() {
				for left.Add(-1) >= 0 {
					newPool(t, s, 3)
				}
			})
		}
		wg.Wait()
	}
	fmt.Println(srv.ClientURL())
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	wg.Wait()
}

// write borrows and returns a slot every d.
func write(ctx context.Context, t *testing.T, s *Store, pool uuid.UUID, d time.Duration) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		l, err := s.Borrow(ctx, pool, time.Minute, time.Second)
		if err == nil {
			_, err = s.Return(ctx, pool, l.ID())
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// connectTo starts TestBenchServer and connects to it.
func connectTo(b *testing.B, task string) *nats.Conn {
	b.Helper()
	program, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(program, "-test.run=^TestBenchServer$")
	cmd.Env = append(os.Environ(), benchServer+"="+task)
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(line, err)
	}
	nc, err := nats.Connect(strings.TrimSpace(line))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	return nc
}

// processorTime returns the processor time that this process has used.
func processorTime() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func openOn(b *testing.B, nc *nats.Conn) *Store {
	b.Helper()
	s, err := Open(b.Context(), nc, Config{Logger: logtest.Logger()})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func lastSequence(b *testing.B, nc *nats.Conn) uint64 {
	b.Helper()
	js := natstest.JetStream(b, nc)
	stream, err := js.Stream(b.Context(), bucket.StreamName)
	if err != nil {
		b.Fatal(err)
	}
	return stream.CachedInfo().State.LastSeq
}
