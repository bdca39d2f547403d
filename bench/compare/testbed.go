package main

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/bench"
	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/client/natsclient"
	"github.com/kvslots/kvslots/kvslots/natsstore"
	"github.com/kvslots/kvslots/natsembed"
)

// testbed is a gateway in this process: an embedded server on an empty directory, one peer
// of the library, and all transports, on loopback.
type testbed struct {
	sync       natsembed.Sync
	nats       *natsembed.Server
	inner      *nats.Conn // to the bucket's account; limits use it
	outer      *nats.Conn // a client of the listener
	store      *kvslots.Store
	http       bench.Endpoint
	transports []bench.Transport
	closers
}

func startTestbed(ctx context.Context, dir string, sync natsembed.Sync, hold bench.Holder) (*testbed, error) {
	r := &testbed{sync: sync}
	if err := r.start(ctx, dir, hold); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *testbed) start(ctx context.Context, dir string, hold bench.Holder) error {
	flush := r.sync
	if flush == natsembed.SyncAlways { // as in kvslots serve
		flush = natsembed.SyncGroup
	}
	if err := r.open(ctx, dir, flush); err != nil {
		return err
	}
	if err := r.connect(); err != nil {
		return err
	}
	return r.serve(hold)
}

// startLibrary starts a testbed without gateway and transports, on a server with the given
// sync mode.
func startLibrary(ctx context.Context, dir string, flush natsembed.Sync) (*testbed, error) {
	r := &testbed{sync: flush}
	if err := r.open(ctx, dir, flush); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *testbed) open(ctx context.Context, dir string, flush natsembed.Sync) error {
	data, remove, err := bench.TempDir(dir)
	if err != nil {
		return err
	}
	r.add(remove)
	if r.nats, err = natsembed.Start(ctx, natsembed.Config{DataDir: data, Sync: flush, Addr: "127.0.0.1:0"}); err != nil {
		return err
	}
	r.add(r.nats.Close)
	// The peer has its own connection, as in kvslots serve.
	peer, err := r.nats.Connect()
	if err != nil {
		return err
	}
	r.add(func() error { peer.Close(); return nil })
	cfg := kvslots.Config{Sole: true, Durable: r.durable()}
	if r.store, err = natsstore.Open(ctx, peer, cfg); err != nil {
		return err
	}
	r.add(bounded(r.store.Close))
	return nil
}

// durable returns Flusher.Durable, or nil if the server has no Flusher.
func (r *testbed) durable() func(then func(error)) {
	if f := r.nats.Flusher(); f != nil {
		return f.Durable
	}
	return nil
}

func (r *testbed) connect() (err error) {
	if r.inner, err = r.nats.Connect(); err != nil {
		return err
	}
	r.add(func() error { r.inner.Close(); return nil })
	if r.outer, err = nats.Connect(r.nats.ClientURL()); err != nil {
		return err
	}
	r.add(func() error { r.outer.Close(); return nil })
	return nil
}

const waitLimit = time.Hour

// sessionIdle is longer than any session waits for its next repetition.
const sessionIdle = time.Hour

func (r *testbed) serve(hold bench.Holder) error {
	lending, turns := gateway.NewLending(), gateway.NewTurns()
	lending.MaxWait = waitLimit
	times := gateway.SessionTimes{IdleTimeout: sessionIdle}
	service, err := r.nats.ConnectService()
	if err != nil {
		return err
	}
	r.add(func() error { service.Close(); return nil })
	api, err := natsapi.Start(service, natsapi.Config{
		Pools: r.store, Lending: lending, Sessions: r.store, Turns: turns, SessionTimes: times,
		MaxBorrows: 1 << 17, VerbsPerSecond: 1e9, // the bench is one client
	})
	if err != nil {
		return err
	}
	r.add(bounded(api.Close))
	g := gateway.New(gateway.Config{
		Store: r.store, Sync: string(r.sync), Lending: lending,
		Dialects: []gateway.Dialect{
			gateway.NewLibrary(r.store, lending, nil),
			gateway.NewDflockd(r.store, gateway.DflockdConfig{Lending: lending, Turns: turns, SessionTimes: times}),
		},
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- g.Serve(ln) }()
	r.add(func() error { return errors.Join(bounded(g.Drain)(), <-served) })
	if r.http, err = bench.ParseEndpoint("http://"+ln.Addr().String(), "", nil); err != nil {
		return err
	}
	r.transports = []bench.Transport{
		bench.Library(r.store), bench.NATS(natsclient.New(r.outer, client.Config{})), bench.HTTP(r.http, hold), bench.V1(r.http, hold),
	}
	return nil
}
