package main

import (
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/kvslots/kvslots/bench"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/natsembed"
)

// BenchmarkPair measures borrow and return over each transport, and the limits. The
// allocations are those of client, gateway and server together, which all run in this
// process.
func BenchmarkPair(b *testing.B) { benchmarkPairs(b, 1) }

// BenchmarkPair64 is BenchmarkPair with 64 clients.
func BenchmarkPair64(b *testing.B) { benchmarkPairs(b, 64) }

func benchmarkPairs(b *testing.B, clients int) {
	for _, sync := range []natsembed.Sync{natsembed.SyncInterval, natsembed.SyncAlways} {
		b.Run(string(sync), func(b *testing.B) {
			l := &lab{}
			defer closing(b, l.close)
			r, err := startTestbed(b.Context(), b.TempDir(), sync, bench.Hold)
			kvslotstest.Must(b, err)
			defer closing(b, r.close)
			for _, transport := range r.transports {
				benchmarkPair(b, transport.Name(), clients, bench.PairsOver(transport))
			}
			raw, err := rawPairs(b.Context(), r.inner, r.durable())
			kvslotstest.Must(b, err)
			handler, err := l.handlerPairs(answerAtOnce)
			kvslotstest.Must(b, err)
			benchmarkPair(b, limitRaw, clients, raw)
			benchmarkPair(b, limitHTTP, clients, handler)
			benchmarkPair(b, limitPing, clients, requestPairs(r.outer, "$SRV.PING", "$SRV.PING"))
		})
	}
}

func benchmarkPair(b *testing.B, name string, clients int, p bench.Pairer) {
	b.Run(name, func(b *testing.B) {
		pair, closePairs, err := p(b.Context(), clients)
		kvslotstest.Must(b, err)
		if closePairs != nil {
			defer closing(b, bounded(closePairs))
		}
		b.ReportAllocs()
		if clients == 1 {
			for b.Loop() {
				kvslotstest.Must(b, pair(b.Context(), 0))
			}
			return
		}
		idle := make(chan int, clients)
		for client := range clients {
			idle <- client
		}
		b.ResetTimer()
		var all errgroup.Group
		all.SetLimit(clients)
		for range b.N {
			all.Go(func() error {
				client := <-idle
				defer func() { idle <- client }()
				return pair(b.Context(), client)
			})
		}
		kvslotstest.Must(b, all.Wait())
	})
}

func closing(b *testing.B, f func() error) {
	b.Helper()
	if err := f(); err != nil {
		b.Error(err)
	}
}
