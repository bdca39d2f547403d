package natsembed

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/kvslots/natsstore"
)

// site is a server with a store on it, as kvslots serve has them.
type site struct {
	srv     *Server
	nc      *nats.Conn
	js      jetstream.JetStream
	store   *kvslots.Store
	durable func(then func(error))
}

// durability returns the function with which a store waits for its writes to be durable.
type durability func(srv *Server) func(then func(error))

func onFlush(srv *Server) func(func(error)) { return srv.Flusher().Durable }

// onAcknowledge treats acknowledged writes as durable, which is wrong.
func onAcknowledge(*Server) func(func(error)) { return func(then func(error)) { then(nil) } }

// bucketStream is the stream of a store's bucket.
const bucketStream = "KV_" + natsstore.Bucket

func bucketPath(srv *Server) string { return filepath.Join(streamsPath(srv), bucketStream) }

// openSite opens a store on a server. The caller closes the server.
func openSite(ctx context.Context, srv *Server, through durability) (*site, error) {
	s := &site{srv: srv, durable: through(srv)}
	var err error
	if s.nc, err = srv.Connect(); err != nil {
		return nil, err
	}
	if s.js, err = jetstream.New(s.nc); err == nil {
		s.store, err = natsstore.Open(ctx, s.nc, kvslots.Config{Logger: logtest.Logger(), Sole: true, Durable: s.durable})
	}
	if err != nil {
		s.nc.Close()
		return nil, errors.Join(err, srv.Err())
	}
	return s, nil
}

// close closes the store without waiting for the server, which may have failed.
func (s *site) close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.store.Close(ctx)
	s.nc.Close()
}

// flushed waits until every acknowledged write is durable.
func (s *site) flushed() error {
	done := make(chan error, 1)
	s.durable(func(err error) { done <- err })
	return <-done
}

// insist repeats a call while the store is unavailable, as it can be on a busy machine,
// and the server has not failed.
func insist[T any](s *site, call func() (T, error)) (T, error) {
	for {
		answer, err := call()
		if !errors.Is(err, kvslots.ErrUnavailable) || s.srv.Err() != nil {
			return answer, err
		}
	}
}
