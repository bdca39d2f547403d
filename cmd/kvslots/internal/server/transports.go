package server

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/dflockdtcp"
	"github.com/kvslots/kvslots/gateway/events"
	"github.com/kvslots/kvslots/gateway/forrst"
	"github.com/kvslots/kvslots/gateway/metrics"
	"github.com/kvslots/kvslots/gateway/natsapi"
	"github.com/kvslots/kvslots/gateway/page"
)

func (s *server) httpConfig() gateway.Config {
	c := s.settings.HTTP()
	c.Store, c.Dialects = standby{&s.lacks}, []gateway.Dialect{gateway.Unavailable{}}
	c.Lending, c.DrainWait = s.lending, s.settings.DrainWait
	c.Version = s.version
	c.Collectors = accessMetrics(s.settings)
	c.Logger = s.log.With("component", "http")
	return c
}

// opened is what the gateway has with the store. Its Drain finishes the finishers.
func (s *server) opened(finishers []gateway.Finisher) gateway.Config {
	c := gateway.Config{Store: nodeStore{s.store, s.nats.server}, Sync: s.nats.sync, Finishers: finishers}
	sessions := gateway.DflockdConfig{Lending: s.lending, Turns: s.turns, SessionTimes: s.settings.Sessions, Clients: s.clients, Logger: s.log}
	streams := events.New(s.store, events.Config{Lending: s.lending, Logger: s.log})
	c.Dialects = []gateway.Dialect{gateway.NewLibrary(s.store, s.lending, s.log), gateway.NewDflockd(s.store, sessions), s.functions, streams}
	longest := s.settings.MaxWait.Seconds()
	c.Collectors = slices.Concat(s.nats.collectors(), streams.Collectors(), []prometheus.Collector{
		missingNodes(s.nats.server),
		metrics.Store(s.store.Metrics),
		metrics.Gauge("kvslots_max_wait_seconds", "The longest wait for a slot: --max-wait.", nil, func() float64 { return longest }),
	})
	if s.tcp != nil {
		c.Collectors = append(c.Collectors, s.tcp.Collectors()...)
	}
	if s.settings.UI != "off" {
		c.Dialects = append(c.Dialects, page.New(s.store, page.Config{Admin: s.settings.UI == "admin", Sync: s.nats.sync, Version: s.version}))
	}
	return c
}

func (s *server) newFunctions() *forrst.Server {
	c := s.settings.Forrst()
	c.Lending, c.NATS = s.lending, s.nats.functions
	c.Logger = s.log.With("component", "forrst")
	return forrst.New(s.store, c)
}

func (s *server) newDflockd() *dflockdtcp.Server {
	c := s.settings.TCP()
	c.Sessions, c.Lending, c.Turns = s.store, s.lending, s.turns
	c.Clients = s.clients
	c.Logger = s.log.With("component", "tcp")
	return dflockdtcp.New(c)
}

func (s *server) clients() (n int) {
	if s.nats.server != nil {
		n = s.nats.server.Clients().NumClients()
	}
	if s.tcp != nil {
		n += s.tcp.Clients()
	}
	return n
}

func (s *server) startService() (*natsapi.Service, error) {
	c := s.settings.Service()
	c.Pools, c.Sessions, c.Calls = s.store, s.store, s.functions
	c.Lending, c.Turns = s.lending, s.turns
	c.Version = s.version
	c.Logger = s.log.With("component", "nats")
	if server := s.nats.server; server != nil {
		c.Listener = server.Clients()
	}
	return natsapi.Start(s.nats.service, c)
}
