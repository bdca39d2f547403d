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

// backend is the NATS that holds the pools: the embedded one, or an external one.
type backend struct {
	nc      *nats.Conn        // for the bucket
	service *nats.Conn        // in the account of the clients; nil without a listener
	server  *natsembed.Server // nil when external
	sync    string            // what /ready says: group, always, interval or external

	// functions is for calls of functions, in the same account as service: a call
	// from another account does not learn that no service of that name exists, and
	// times out. It is nil without a listener.
	functions *nats.Conn
}

func openBackend(ctx context.Context, s settings, log zerolog.Logger) (*backend, error) {
	if s.nats.url != "" {
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
	// Clients can read below _INBOX, and must not see the answers of functions.
	if b.functions, err = server.ConnectService(append(logConnection(log), noBuffer, nats.CustomInboxPrefix(functionInbox))...); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

// functionInbox is the prefix of the reply subjects of functions in the embedded
// server.
const functionInbox = "_KVSLOTS_FN"

// noBuffer makes publishing without a connection fail. An answer with a lease that
// is sent later would promise time that is over by then.
var noBuffer = nats.ReconnectBufSize(-1)

func dialNATS(s settings, log zerolog.Logger) (*backend, error) {
	options, err := s.nats.options()
	if err != nil {
		return nil, err
	}
	options = append(append(options, logConnection(log)...), nats.Name("kvslots"))
	b := &backend{sync: "external"}
	for _, connection := range []struct {
		of      **nats.Conn
		options []nats.Option
	}{
		{&b.nc, options},
		// Connections of their own, so that a flood of requests does not hold up the
		// bucket's stream.
		{&b.service, append(options, noBuffer)},
		{&b.functions, append(options, noBuffer)},
	} {
		if *connection.of, err = nats.Connect(s.nats.url, connection.options...); err != nil {
			return nil, errors.Join(fmt.Errorf("NATS: %w", err), b.close())
		}
	}
	return b, nil
}

// logConnection logs the state of a connection. URLs are logged without passwords.
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

// durable reports to the store when its writes were flushed. It is nil when every
// acknowledged write is flushed, or none is waited for.
func (b *backend) durable() func(then func(error)) {
	if b.server == nil || b.server.Flusher() == nil {
		return nil
	}
	return b.server.Flusher().Durable
}

// failed is closed when the embedded server has failed; nil without one.
func (b *backend) failed() <-chan struct{} {
	if b.server == nil {
		return nil
	}
	return b.server.Failed()
}

// close closes the connections, then the server.
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

// orFailure serves until stop ends, or until the embedded server fails, which is an
// error: the disk may differ from what the server has in memory, and clients get no
// more answers.
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
