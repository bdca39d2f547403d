package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/kvslots/kvslots/natsembed"
)

// backend is the NATS that holds the pools: an embedded one, or somebody
// else's.
type backend struct {
	nc     *nats.Conn
	server *natsembed.Server // nil when external
	sync   string            // what /ready says
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
	server, err := natsembed.Start(ctx, natsembed.Config{
		DataDir: s.dataDir,
		Sync:    natsembed.Sync(s.sync),
		Logger:  log.With().Str("component", "nats-server").Logger(),
	})
	if err != nil {
		return nil, err
	}
	nc, err := server.Connect(logConnection(log)...)
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return &backend{nc: nc, server: server, sync: s.sync}, nil
}

func dialNATS(s settings, log zerolog.Logger) (*backend, error) {
	options := append(logConnection(log),
		nats.Name("kvslots"),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250*time.Millisecond),
		// Without it two refusals in a row, as while a server is being
		// configured anew, close the connection for good.
		nats.IgnoreAuthErrorAbort(),
	)
	if s.natsUser != "" {
		options = append(options, nats.UserInfo(s.natsUser, s.natsPassword))
	}
	if s.natsCreds != "" {
		options = append(options, nats.UserCredentials(s.natsCreds))
	}
	nc, err := nats.Connect(s.natsURL, options...)
	if err != nil {
		return nil, fmt.Errorf("NATS: %w", err)
	}
	return &backend{nc: nc, sync: "external"}, nil
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

// close ends the connection, then the server.
func (b *backend) close() error {
	b.nc.Close()
	if b.server == nil {
		return nil
	}
	return b.server.Close()
}
