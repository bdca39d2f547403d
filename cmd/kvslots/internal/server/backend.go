package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/gateway/metrics"
	"github.com/kvslots/kvslots/kvslots/natsstore"
	"github.com/kvslots/kvslots/natsembed"
)

// backend is the embedded or external NATS server that has the bucket.
type backend struct {
	nc      *nats.Conn        // for the bucket
	service *nats.Conn        // in the account of the clients; nil without a listener
	server  *natsembed.Server // nil when external
	flushes *metrics.Flushes  // nil when external
	sync    string            // for /ready: always, interval or external

	// functions is for calls of functions, in the same account as service: NATS does
	// not report to other accounts that a function has no service, and their calls
	// would time out. functions is nil without a listener.
	functions *nats.Conn
}

// openBackend opens the backend. While an external NATS does not answer, it waits for it.
func (s *server) openBackend(ctx context.Context) (b *backend, err error) {
	if s.settings.NATS.URL == "" {
		return embedNATS(ctx, s.settings, s.version, s.log)
	}
	err = s.awaitNATS(ctx, func() (err error) {
		b, err = dialNATS(&s.settings.NATS, s.log)
		return err
	})
	return b, err
}

func embedNATS(ctx context.Context, s *settings.Serve, version string, log *slog.Logger) (*backend, error) {
	cfg := s.Embedded()
	if cfg.Sync == natsembed.SyncInterval {
		log.Warn("sync interval: a power cut may take the leases and returns of the last second; sync always keeps them")
	}
	flushes := metrics.NewFlushes()
	cfg.Flushed = flushes.Flushed
	cfg.Logger = log.With("component", "nats-server")
	if cfg.Cluster != nil {
		cfg.Cluster.Format, cfg.Cluster.Version = natsstore.Format, version
	}
	server, err := natsembed.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	b := &backend{server: server, flushes: flushes, sync: string(natsembed.SyncAlways)}
	if server.Sync() == natsembed.SyncInterval {
		b.sync = string(natsembed.SyncInterval)
	}
	if b.nc, err = server.Connect(logConnection(log, "bucket")...); err != nil {
		return nil, errors.Join(err, b.close())
	}
	if cfg.Addr == "" {
		return b, nil
	}
	for name, connection := range map[string]**nats.Conn{"service": &b.service, "functions": &b.functions} {
		options := append(logConnection(log, name), noBuffer, settings.OwnInboxes())
		if *connection, err = server.ConnectService(options...); err != nil {
			return nil, errors.Join(err, b.close())
		}
	}
	return b, nil
}

func dialNATS(at *settings.NATS, log *slog.Logger) (*backend, error) {
	options, err := at.Options()
	if err != nil {
		return nil, err
	}
	options = append(options, nats.Name("kvslots"))
	b := &backend{sync: "external"}
	for _, connection := range []struct {
		name    string
		of      **nats.Conn
		options []nats.Option
	}{
		{"bucket", &b.nc, nil},
		// Separate connections, so that a flood of requests does not delay the bucket's
		// stream.
		{"service", &b.service, []nats.Option{noBuffer, resubscribe(log, "service")}},
		{"functions", &b.functions, []nats.Option{noBuffer, resubscribe(log, "functions")}},
	} {
		all := slices.Concat(options, logConnection(log, connection.name), connection.options, []nats.Option{settings.OwnInboxes()})
		if *connection.of, err = nats.Connect(at.URL, all...); err != nil {
			return nil, errors.Join(fmt.Errorf("NATS: %w", err), b.close())
		}
	}
	return b, nil
}

func (b *backend) collectors() []prometheus.Collector {
	connections := map[string]*nats.Conn{"bucket": b.nc, "service": b.service, "functions": b.functions}
	maps.DeleteFunc(connections, func(_ string, nc *nats.Conn) bool { return nc == nil })
	all := []prometheus.Collector{metrics.Connections(connections)}
	if b.server != nil {
		all = append(all, metrics.Space(b.server.Space))
	}
	if b.server != nil && b.server.Flusher() != nil {
		all = append(all, b.flushes)
	}
	if b.server != nil && b.service != nil {
		refused := b.server.Clients().Refusals()
		for limit, count := range map[string]*atomic.Int64{
			"nats_max_connections": &refused.MaxConnections, "nats_max_connections_per_ip": &refused.MaxConnectionsPerIP,
			"nats_unread": &refused.Unread,
		} {
			all = append(all, metrics.Limit(limit, count.Load))
		}
	}
	return all
}

func (b *backend) close() error {
	for _, nc := range []*nats.Conn{b.functions, b.service, b.nc} {
		if nc != nil {
			nc.Close()
		}
	}
	if b.server == nil {
		return nil
	}
	if b.server.Err() != nil {
		return inEndTime(b.server.Close)
	}
	return b.server.Close()
}

// endTime bounds each of the two steps in which the gateway ends after its embedded server has
// failed: pending requests are answered, and the server is closed. Both could wait for a disk.
const endTime = 400 * time.Millisecond

var errCutShort = errors.New("cut short")

// inEndTime returns what do returns, or errCutShort after endTime.
func inEndTime(do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-time.After(endTime):
		return errCutShort
	}
}

// orFailure calls serve, and ends stop and hurry if the embedded server fails. It then
// returns an error: the server's data in memory may differ from its data on disk, and
// clients must get no more answers. After that, serve may still be running.
func (b *backend) orFailure(serve func(stop, hurry context.Context) error, stop, hurry context.Context) error {
	if b.server == nil {
		return serve(stop, hurry)
	}
	stop, endStop := context.WithCancel(stop)
	defer endStop()
	hurry, endHurry := context.WithCancel(hurry)
	defer endHurry()
	served := make(chan error, 1)
	go func() { served <- serve(stop, hurry) }()
	var err error
	select {
	case err = <-served:
	case <-b.server.Failed():
		endStop()
		endHurry()
		err = inEndTime(func() error { return <-served })
	}
	if failure := b.server.Err(); failure != nil {
		err = errors.Join(fmt.Errorf("embedded NATS: %w", failure), err)
	}
	return err
}

// onFailure calls do if the embedded server fails before stop is called.
func (b *backend) onFailure(do func()) (stop func()) {
	return Background(func(ctx context.Context) {
		if b.server == nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-b.server.Failed():
			do()
		}
	})
}
