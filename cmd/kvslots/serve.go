package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/dflockd"
	"github.com/kvslots/kvslots/gateway/forrst"
	"github.com/kvslots/kvslots/gateway/library"
	"github.com/kvslots/kvslots/gateway/metrics"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/kvslots"
)

const (
	openTimeout  = time.Minute
	closeTimeout = 10 * time.Second
)

func serveCommand(env lookupEnv) *cobra.Command {
	s := defaultSettings()
	command := &cobra.Command{
		Use:   "serve",
		Short: "Run the gateway",
		Long: "Serve pools over HTTP and NATS, from an embedded NATS server or from an existing one.\n\n" +
			"Every flag can also be given as an environment variable (--http-addr as KVSLOTS_HTTP_ADDR) and as a\n" +
			"key of the configuration file. Flags take precedence over the environment, and the environment over the\n" +
			"file. A duration without a unit is in seconds.\n\n" +
			"SIGTERM drains the gateway and ends it; a second SIGTERM, at least a second later, skips the wait.",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := applySources(command.Flags(), env); err != nil {
				return err
			}
			if err := s.validate(); err != nil {
				return err
			}
			if err := s.authToken.load(command.Flags(), command.InOrStdin()); err != nil {
				return err
			}
			log, err := newLogger(command.ErrOrStderr(), s.logLevel, s.logFormat)
			if err != nil {
				return err
			}
			for _, name := range writableSecrets(command.Flags()) {
				log.Warn().Str("flag", name).Msg("every user of this machine may write this file, which has a secret")
			}
			defer dumpOnQuit(command.ErrOrStderr())()
			return serveLogged(command.Context(), s, newServiceManager(env, log), log)
		},
	}
	s.addFlags(command.Flags())
	return command
}

// serveLogged serves until a signal comes.
func serveLogged(ctx context.Context, s settings, manager *serviceManager, log zerolog.Logger) error {
	stop, hurry, release := stopSignals(ctx, log)
	defer release()
	err := serve(stop, hurry, s, manager, log)
	if errors.Is(err, context.Canceled) && stop.Err() != nil {
		err = nil // stopped during the start
	}
	if err != nil {
		log.Error().Err(err).Msg("failed")
		return exitError{exitFailed, nil}
	}
	log.Info().Msg("stopped")
	return nil
}

// serve starts the listener, NATS, the store and the gateway. When stop ends, it stops
// them in the opposite order; when hurry ends, it stops without draining further.
func serve(stop, hurry context.Context, s settings, manager *serviceManager, log zerolog.Logger) (err error) {
	allowed, err := openAccess(s)
	if err != nil {
		return err
	}
	defer startReloader(allowed.files, manager, log)()
	ln, err := net.Listen("tcp", s.httpAddr) // before NATS, since it fails more often
	if err != nil {
		return fmt.Errorf("HTTP: %w", err)
	}
	defer ln.Close()
	stopDebug, err := startDebug(s.debugAddr, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopDebug()) }()
	waiting := newStandby(ln, allowed, s, manager, log)
	defer func() { err = errors.Join(err, waiting.stop()) }()
	nats, err := awaitBackend(stop, waiting, s, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, nats.close()) }()
	return nats.orFailure(func(stop, hurry context.Context) error {
		return serveFrom(nats, waiting, ln, allowed, stop, hurry, s, manager, log)
	}, stop, hurry)
}

// serveFrom opens the store on a backend, and serves its pools until stop ends.
func serveFrom(nats *backend, waiting *standby, ln net.Listener, allowed *access, stop, hurry context.Context, s settings, manager *serviceManager, log zerolog.Logger) (err error) {
	var store *kvslots.Store
	err = waiting.await(stop, "the restore of the bucket", beingRestored, func() (err error) {
		store, err = openStore(stop, nats, s, log)
		return err
	})
	if err != nil {
		return err
	}
	if err := waiting.stop(); err != nil {
		return errors.Join(err, closing(store.Close))
	}
	defer func() { err = errors.Join(err, closing(store.Close)) }()
	common := newShared(nats, allowed, s)
	functions := newForrst(store, nats, common, s, log)
	defer func() { err = errors.Join(err, closing(functions.Close)) }()
	finishers := []gateway.Finisher{functions}
	if nats.service != nil {
		service, err := startService(nats, store, functions, common, s, log)
		if err != nil {
			return fmt.Errorf("NATS: %w", err)
		}
		defer func() { err = errors.Join(err, closing(service.Close)) }()
		finishers = []gateway.Finisher{service, functions} // the service first, since its requests call functions
	}
	logListening(log, ln, nats, s)
	gw := newGateway(store, functions, finishers, common, nats.sync, s, log)
	manager.ready("serving HTTP at " + ln.Addr().String())
	defer manager.watch(nats.alive(store))()
	return serveHTTP(stop, hurry, gw, ln, manager, log.With().Dur("wait_ms", s.drainWait).Logger())
}

// shared is state that the dialects and the NATS service share, except the store.
type shared struct {
	lending *gateway.Lending
	turns   *gateway.Turns
	access  *access
	metrics []prometheus.Collector

	clients func() int // the number of NATS clients; nil without an embedded server
}

func newShared(nats *backend, allowed *access, s settings) shared {
	c := shared{lending: gateway.NewLending(), turns: gateway.NewTurns(), access: allowed, metrics: nats.collectors()}
	c.lending.Waits.Limit(s.waits)
	if nats.server != nil {
		c.clients = nats.server.Clients().NumClients
	}
	return c
}

func startService(nats *backend, store *kvslots.Store, functions *forrst.Server, common shared, s settings, log zerolog.Logger) (*natsapi.Service, error) {
	cfg := natsapi.Config{
		Pools:         store,
		Lending:       common.lending,
		Sessions:      store,
		Turns:         common.turns,
		SessionTimes:  s.sessions,
		ReplyPrefixes: splitList(s.natsReplies),
		Gate:          nats.gate,
		Calls:         functions,
		Version:       versionName(),
		Logger:        log.With().Str("component", "nats").Logger(),
	}
	if nats.server != nil {
		limits := s.storeConfig()
		cfg.Listener = nats.server.Clients()
		cfg.Addresses = limits.MaxSessionsPerOrigin+limits.MaxLocksPerOrigin+limits.MaxTombstones > 0
	}
	return natsapi.Start(nats.service, cfg)
}

// tombstoneSize is how many bytes of the store the marker of a key takes at most.
const tombstoneSize = 512

// storeConfig returns the configuration of the store, as far as flags say.
func (s *settings) storeConfig() kvslots.Config {
	cfg := s.store
	cfg.MaxLocksPerSession, cfg.MaxLocksPerOrigin = s.locks.perSession.of(cfg.MaxLocks), s.locks.perIP.of(cfg.MaxLocks)
	return cfg
}

func openStore(ctx context.Context, nats *backend, s settings, log zerolog.Logger) (*kvslots.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	cfg := s.storeConfig()
	if nats.server != nil {
		cfg.Sole, cfg.Room = true, nats.server.Room // clients of its listener cannot reach the bucket
		if fit := int(s.maxStore / (4 * tombstoneSize)); fit > 0 && cfg.MaxTombstones > 0 {
			cfg.MaxTombstones = min(cfg.MaxTombstones, fit)
		}
		// Without a Flusher the server flushes before it acknowledges, or clients do not wait for that.
		if flusher := nats.server.Flusher(); flusher != nil {
			cfg.Durable = flusher.Durable
		}
	}
	cfg.Logger = log.With().Str("component", "store").Logger()
	return kvslots.Open(ctx, nats.nc, cfg)
}

// closing calls the Close of a part of serve with a new context, since those of serve
// have ended.
func closing(close func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return close(ctx)
}

func newGateway(store *kvslots.Store, functions *forrst.Server, finishers []gateway.Finisher, common shared, sync string, s settings, log zerolog.Logger) *gateway.Gateway {
	c := httpConfig(common.access, s, log)
	c.Store, c.Sync = store, sync
	c.Lending, c.Finishers = common.lending, finishers
	sessions := dflockd.New(store, dflockd.Config{
		Lending: common.lending, Turns: common.turns, Clients: common.clients,
		SessionTimes: s.sessions,
		Logger:       log,
	})
	c.Dialects = []gateway.Dialect{library.New(store, common.lending, log), sessions, functions}
	c.DrainWait = s.drainWait
	c.Collectors = slices.Concat(c.Collectors, common.metrics, []prometheus.Collector{metrics.Store(store.Metrics)})
	return gateway.New(c)
}

// httpConfig returns the configuration of a gateway without a store.
func httpConfig(allowed *access, s settings, log zerolog.Logger) gateway.Config {
	return gateway.Config{
		TLS:         allowed.tls(),
		Tokens:      allowed.tokens,
		Hosts:       s.allowedHosts(),
		RateLimit:   s.httpRateLimit,
		RateBurst:   s.httpRateBurst,
		CORSOrigins: splitList(s.httpOrigins),

		MaxConnections: s.connections(), MaxConnectionsPerIP: s.maxConnectionsPerIP,
		TrustedProxies: s.proxies(),

		Collectors: []prometheus.Collector{allowed.fileAge()},
		Version:    versionName(),
		Logger:     log.With().Str("component", "http").Logger(),
	}
}

// serveHTTP serves HTTP until stop ends, then drains until hurry ends.
func serveHTTP(stop, hurry context.Context, gw *gateway.Gateway, ln net.Listener, manager *serviceManager, log zerolog.Logger) error {
	served := make(chan error, 1)
	go func() { served <- gw.Serve(ln) }()
	select {
	case err := <-served: // the listener failed: the gateway gets no more requests
		manager.stopping("failed")
		hurried, cancel := context.WithCancel(hurry)
		cancel()
		return errors.Join(fmt.Errorf("HTTP: %w", err), gw.Drain(hurried))
	case <-stop.Done():
		manager.stopping("draining")
		log.Info().Msg("draining")
		return errors.Join(gw.Drain(hurry), <-served)
	}
}

// logListening logs the addresses. The message and the field http are a contract.
func logListening(log zerolog.Logger, ln net.Listener, nats *backend, s settings) {
	event := log.Info().Str("http", ln.Addr().String()).Str("version", versionName()).Str("sync", nats.sync)
	if nats.server == nil {
		event.Str("nats", nats.nc.ConnectedUrlRedacted())
	} else {
		event.Str("data_dir", s.dataDir)
		if s.natsAddr != "" {
			event.Str("nats", nats.server.ClientURL())
		}
	}
	event.Msg("listening")
}
