package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/kvslots/kvslots/natsembed"
)

// backend is the NATS that holds the pools: an embedded one, or somebody
// else's.
type backend struct {
	nc      *nats.Conn        // for the bucket
	service *nats.Conn        // in the account of those who ask; nil when nobody can
	server  *natsembed.Server // nil when external
	sync    string            // what /ready says: group, always, interval or external

	// functions is in the same account as service, on which functions are called:
	// from another account, a function that is not there would be waited for in
	// vain. nil when there can be none.
	functions *nats.Conn
}

func openBackend(ctx context.Context, s settings, log zerolog.Logger) (*backend, error) {
	if s.natsURL != "" {
		return dialNATS(s, log)
	}
	return embedNATS(ctx, s, log)
}

func embedNATS(ctx context.Context, s settings, log zerolog.Logger) (*backend, error) {
	if s.sync == string(natsembed.SyncInterval) {
		log.Warn().Msg("sync interval: a power cut may take the last second's leases and returns with it; sync always does not")
	}
	cfg := s.embedded()
	cfg.Logger = log.With().Str("component", "nats-server").Logger()
	server, err := natsembed.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	b := &backend{server: server, sync: string(server.Sync())}
	if b.nc, err = server.Connect(logConnection(log)...); err != nil {
		return nil, errors.Join(err, b.close())
	}
	if s.natsAddr == "" {
		return b, nil
	}
	if b.service, err = server.ConnectService(append(logConnection(log), noBuffer)...); err != nil {
		return nil, errors.Join(err, b.close())
	}
	// Clients can read below _INBOX; what functions answer is none of their business.
	if b.functions, err = server.ConnectService(append(logConnection(log), noBuffer, nats.CustomInboxPrefix(functionInbox))...); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

// functionInbox is where functions' answers arrive with the embedded server.
const functionInbox = "_KVSLOTS_FN"

// noBuffer makes what is sent while NATS is away fail, rather than be sent
// later: an answer with a lease would promise time that is over by then.
var noBuffer = nats.ReconnectBufSize(-1)

func dialNATS(s settings, log zerolog.Logger) (*backend, error) {
	connection := s.connection()
	options, err := connection.options()
	if err != nil {
		return nil, err
	}
	options = append(append(options, logConnection(log)...), nats.Name("kvslots"))
	b := &backend{sync: "external"}
	if b.nc, err = nats.Connect(s.natsURL, options...); err != nil {
		return nil, fmt.Errorf("NATS: %w", err)
	}
	// A second connection, so that a flood of requests does not hold up the
	// bucket's stream.
	if b.service, err = nats.Connect(s.natsURL, append(options, noBuffer)...); err != nil {
		return nil, errors.Join(fmt.Errorf("NATS: %w", err), b.close())
	}
	if b.functions, err = nats.Connect(s.natsURL, append(options, noBuffer)...); err != nil {
		return nil, errors.Join(fmt.Errorf("NATS: %w", err), b.close())
	}
	return b, nil
}

// logConnection tells what becomes of the connection. URLs are left out, or
// without their passwords.
func logConnection(log zerolog.Logger) []nats.Option {
	return []nats.Option{
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // nil: closed by us
				log.Warn().Err(err).Msg("NATS disconnected")
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info().Str("nats", nc.ConnectedUrlRedacted()).Msg("NATS reconnected")
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Warn().Err(err).Msg("NATS error")
		}),
	}
}

// durable is how the store finds out that what it wrote was flushed; nil when that
// needs no asking.
func (b *backend) durable() func(then func(error)) {
	if b.server == nil || b.server.Flusher() == nil {
		return nil
	}
	return b.server.Flusher().Durable
}

// failed is closed when the embedded server cannot go on; nil without one.
func (b *backend) failed() <-chan struct{} {
	if b.server == nil {
		return nil
	}
	return b.server.Failed()
}

// close ends the connections, then the server.
func (b *backend) close() error {
	for _, nc := range []*nats.Conn{b.functions, b.service, b.nc} {
		if nc != nil {
			nc.Close()
		}
	}
	if b.server == nil {
		return nil
	}
	return b.server.Close()
}

// orFailure serves until stop ends or the embedded server fails, which ends the
// process as a failure: what is on disk is not what the server holds in memory, and
// nothing more is told.
func (b *backend) orFailure(serve func(stop, hurry context.Context) error, stop, hurry context.Context) error {
	stop, endStop := context.WithCancel(stop)
	defer endStop()
	hurry, endHurry := context.WithCancel(hurry)
	defer endHurry()
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-done:
		case <-b.failed():
			endStop()
			endHurry()
		}
	})
	err := serve(stop, hurry)
	close(done)
	watching.Wait()
	if b.server != nil && b.server.Err() != nil {
		err = errors.Join(fmt.Errorf("embedded NATS: %w", b.server.Err()), err)
	}
	return err
}
