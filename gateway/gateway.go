// Package gateway serves pools, locks and semaphores over HTTP: it mounts the APIs
// that clients use, asks for tokens, limits rates, answers for health, readiness and
// metrics, and drains. README.md beside it is the manual of all that it answers.
//
// Each API is a Dialect, in a package of its own below this one: library has /l,
// dflockd /v1 and forrst /rpc. They know nothing of each other. Package natsapi serves
// the same operations over NATS; it shares a Lending and Turns with the Gateway.
//
//	lending := gateway.NewLending()
//	gw := gateway.New(gateway.Config{
//		Store: store, Lending: lending,
//		Dialects: []gateway.Dialect{library.New(store, lending, log)},
//	})
//	go gw.Serve(listener)
//	...
//	err := gw.Drain(ctx)
package gateway

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/cors"
	"github.com/rs/zerolog"
)

// Config says what a gateway serves.
type Config struct {
	// Store is asked by /ready. *kvslots.Store is one.
	Store interface{ Ready() error }

	// Sync is what /ready says about durability: "group", "always", "interval", or
	// "external" when the NATS is not this process's own.
	Sync string

	// Dialects are mounted in this order.
	Dialects []Dialect

	// Lending is shared with all transports that grant slots. The gateway stops it
	// when it drains. nil means that there are none.
	Lending *Lending

	// DrainWait is how long the listener stays open while draining, for load
	// balancers that watch /ready to send their clients elsewhere.
	DrainWait time.Duration

	// ShutdownTimeout is how long requests may take that are under way when the
	// listener closes. No borrow is among them. 0 means 10 s.
	ShutdownTimeout time.Duration

	// Finishers are called, in this order, when the listener closes.
	Finishers []Finisher

	// TLS makes Serve accept TLS only. nil means plain HTTP.
	TLS *tls.Config

	// Tokens are the bearer tokens of which each request must carry one; nil, or no
	// token, asks for none. /health, /ready and /v1/openapi.json are read without.
	Tokens *Tokens

	// Hosts are the names that requests may have in their header Host, besides IP
	// addresses and localhost. nil allows every name. A gateway without tokens that
	// only clients on its own machine can reach must not be nil here: web pages
	// could read it by DNS rebinding.
	Hosts []string

	// RateLimit is how many requests a second each client may send, and
	// RateBurst how many at once; a client is an IPv4 address or an IPv6 /64.
	// 0 means no limit, and twice as many as in a second.
	RateLimit float64
	RateBurst int

	// MaxConnections is how many connections Serve accepts at once, and
	// MaxConnectionsPerIP how many of one address, for IPv6 of one /64. 0 means no
	// limit.
	MaxConnections, MaxConnectionsPerIP int

	// TrustedProxies are the networks of proxies whose X-Forwarded-For or Forwarded
	// says which client has sent a request. MaxConnectionsPerIP does not apply to
	// them.
	TrustedProxies []netip.Prefix

	// CORSOrigins are the origins whose web pages may send requests, such as
	// "https://example.com"; "*" allows every origin.
	CORSOrigins []string

	// Collectors are further metrics for /metrics: StoreMetrics, ConnectionMetrics and
	// FlushMetrics.
	Collectors []prometheus.Collector

	// Version is what the build information metric and /v1/openapi.json say.
	Version string

	// Logger takes a line for each request: at info level for those that end
	// in a 5xx, at debug level for the others. Paths are secrets, so the
	// lines name routes.
	Logger zerolog.Logger
}

// Dialect is one language that clients speak over HTTP. It may be an
// ErrorRenderer, too.
type Dialect interface {
	// Mount adds the dialect's routes. r answers with JSON where none
	// matches; the dialect sets no handlers for that. Routes are added to r
	// itself: chi takes the root of a router within it for one that has every
	// method, and so Allow would name them all.
	Mount(r chi.Router)
}

// Finisher has work under way that may last. Finish takes no more of it, and
// returns when what there is has ended. When ctx ends first, Finish gives the rest
// up, in a bounded time, so that the requests for it can still be answered.
type Finisher interface{ Finish(ctx context.Context) }

// Gateway is an HTTP server in front of the pools.
type Gateway struct {
	cfg     Config
	log     zerolog.Logger
	metrics *metrics
	limiter *rateLimiter // nil without a limit
	server  *http.Server

	cors        *cors.Cors // nil without Config.CORSOrigins
	sameOrigin  http.CrossOriginProtection
	description []byte // the answer of /v1/openapi.json
	requestIDs  requestIDs

	connections *connections
	limited     atomic.Int64 // requests that limiter has refused
}

// New makes a gateway. It does nothing until Serve is called.
func New(cfg Config) *Gateway {
	if cfg.Lending == nil {
		cfg.Lending = NewLending()
	}
	if cfg.ShutdownTimeout == 0 {
		cfg.ShutdownTimeout = shutdownTimeout
	}
	g := &Gateway{
		cfg: cfg, log: cfg.Logger,
		cors: newCORS(cfg.CORSOrigins), description: describe(cfg.Version),
		connections: newConnections(cfg),
	}
	g.metrics = newMetrics(g)
	g.metrics.registry.MustRegister(g.limitMetrics()...)
	if cfg.RateLimit > 0 {
		g.limiter = newRateLimiter(cfg.RateLimit, cfg.RateBurst)
	}
	g.server = g.newServer()
	return g
}

// Handler is everything that the gateway answers, without a listener.
func (g *Gateway) Handler() http.Handler {
	r := chi.NewRouter()
	r.Use(
		g.observe, g.prepare,
		g.allowOrigins, g.guardPages,
		g.limitRate, // precedes authentication, to limit guesses at the token
		g.authenticate,
	)
	r.NotFound(g.notFound)
	r.MethodNotAllowed(g.methodNotAllowed)
	getAndHead(r, "/health", g.health)
	getAndHead(r, "/ready", g.ready)
	getAndHead(r, "/metrics", g.metrics.handler().ServeHTTP)
	getAndHead(r, "/v1/openapi.json", g.describe)
	for _, dialect := range g.cfg.Dialects {
		dialect.Mount(r)
	}
	return r
}

func getAndHead(r chi.Router, pattern string, handler http.HandlerFunc) {
	r.Get(pattern, handler)
	r.Head(pattern, handler)
}
