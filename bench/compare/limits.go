package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/bench"
	"github.com/kvslots/kvslots/natsembed"
)

const (
	limitRaw         = "raw"               // claim and purge on JetStream, on the same server, flushed like the library's writes
	limitLibraryEach = "library-fsync"     // the library, on a server that flushes each write alone
	limitHTTP        = "net/http"          // an empty handler with the same bodies
	limitHTTPLibrary = "net/http+library"  // a handler that calls the library, and does nothing else
	limitEcho        = "nats-echo"         // a NATS service that answers with the same bodies
	limitPing        = "nats-ping"         // $SRV.PING at the gateway's own service
	limitPingLibrary = "nats-ping+library" // that and the library, in turn
	limitDisk        = "fsync"             // 512 bytes appended to a file and flushed, twice
)

// limits starts the limits with which the transports of gateways are compared.
func (l *lab) limits(ctx context.Context, gateways []*bench.Gateway) (limits []bench.Baseline, err error) {
	for _, g := range gateways {
		r := l.testbeds[g.Store]
		raw, err := rawPairs(ctx, r.inner, r.durable())
		if err != nil {
			return nil, err
		}
		handler, err := l.handlerPairs(answerFrom(r.store))
		if err != nil {
			return nil, err
		}
		limits = append(limits, bench.Baseline{Name: limitRaw, Durability: g.Sync, Pairs: raw},
			bench.Baseline{Name: limitHTTPLibrary, Durability: g.Sync, Pairs: handler})
		if r.sync == natsembed.SyncInterval {
			pings := requestPairs(r.outer, "$SRV.PING", "$SRV.PING")
			limits = append(limits, bench.Baseline{Name: limitPing, Pairs: pings}, bench.Baseline{
				Name: limitPingLibrary, Durability: g.Sync, Pairs: inTurn(pings, bench.PairsOver(bench.Library(r.store))),
			})
		}
	}
	each, err := startLibrary(ctx, l.dir, natsembed.SyncAlways)
	if err != nil {
		return nil, err
	}
	l.add(each.close)
	server, err := startPlainServer(l.dir, false)
	if err != nil {
		return nil, err
	}
	l.add(server.close)
	echo, err := echoPairs(server)
	if err != nil {
		return nil, err
	}
	handler, err := l.handlerPairs(answerAtOnce)
	if err != nil {
		return nil, err
	}
	disk, err := l.diskPairs()
	return append(limits,
		bench.Baseline{Name: limitLibraryEach, Durability: "always", Pairs: bench.PairsOver(bench.Library(each.store))},
		bench.Baseline{Name: limitEcho, Pairs: echo},
		bench.Baseline{Name: limitHTTP, Pairs: handler}, bench.Baseline{Name: limitDisk, Pairs: disk, Once: true}), err
}

const rawStream = "bench_raw"

// rawPairs does only the two writes of a pair, a claim and its purge, on a key of each
// client. A write is done when it is acknowledged, and durable, if not nil, has called
// back.
func rawPairs(ctx context.Context, nc *nats.Conn, durable func(then func(error))) (bench.Pairer, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{
		Name: rawStream, Subjects: []string{rawStream + ".*"}, MaxMsgsPerSubject: 1, AllowMsgTTL: true,
		SubjectDeleteMarkerTTL: 2 * time.Minute, Storage: jetstream.FileStorage, AllowRollup: true,
	})
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, clients int) (bench.Action, bench.Cleanup, error) {
		subjects := make([]string, clients)
		for i := range subjects {
			subjects[i] = fmt.Sprintf("%s.%d", rawStream, i)
		}
		return func(ctx context.Context, client int) error { return claimAndPurge(ctx, js, subjects[client], durable) }, nil, nil
	}, nil
}

// claimSize is about the size of a slot's value in bytes.
const claimSize = 200

func claimAndPurge(ctx context.Context, js jetstream.JetStream, subject string, durable func(then func(error))) error {
	claim := nats.NewMsg(subject)
	claim.Header.Set(jetstream.MsgTTLHeader, "630s")
	claim.Data = make([]byte, claimSize)
	revision, err := publish(ctx, js, claim, 0, durable)
	if err != nil {
		return err
	}
	purge := nats.NewMsg(subject)
	purge.Header.Set(jetstream.MsgTTLHeader, "120s")
	_, err = publish(ctx, js, purge, revision, durable)
	return err
}

// publish writes m and returns when the write is durable. expected is the subject's last
// revision; 0 means any.
func publish(ctx context.Context, js jetstream.JetStream, m *nats.Msg, expected uint64, durable func(then func(error))) (revision uint64, err error) {
	var options []jetstream.PublishOpt
	if expected > 0 {
		options = append(options, jetstream.WithExpectLastSequencePerSubject(expected))
	}
	ack, err := js.PublishMsg(ctx, m, options...)
	if err != nil {
		return 0, err
	}
	if durable == nil {
		return ack.Sequence, nil
	}
	flushed := make(chan error, 1)
	durable(func(err error) { flushed <- err })
	return ack.Sequence, <-flushed
}

// diskPairs flushes a file twice, as a single client's two writes of a pair require.
func (l *lab) diskPairs() (bench.Pairer, error) {
	dir, remove, err := bench.TempDir(l.dir)
	if err != nil {
		return nil, err
	}
	l.add(remove)
	file, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	l.add(file.Close)
	block := make([]byte, 512)
	return func(context.Context, int) (bench.Action, bench.Cleanup, error) {
		return func(context.Context, int) error {
			for range 2 {
				if _, err := file.Write(block); err != nil {
					return err
				}
				if err := file.Sync(); err != nil {
					return err
				}
			}
			return nil
		}, nil, nil
	}, nil
}
