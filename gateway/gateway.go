package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/cors"
)

// Config configures a Gateway.
type Config struct {
	// Store determines the answer of /ready, and the header Kvslots-Store of all answers. It is usually a *kvslots.Store.
	Store interface {
		Ready() error
		ID() string // "": not known yet
	}

	// Sync is the field sync in the answer of /ready: "always", "interval",
	// or "external" if another process runs the NATS server.
	Sync string

	// Dialects are the APIs to serve.
	Dialects []Dialect

	// Lending is shared by all transports that grant slots. The gateway stops it when it
	// drains. nil means that no transport grants slots.
	Lending *Lending

	// DrainWait is how long the listener stays open while draining, so that load
	// balancers that watch /ready can send clients to other gateways.
	DrainWait time.Duration

	// ShutdownTimeout is how long requests that are pending when the listener closes
	// may take. Borrows have ended before. 0 means 10 s.
	ShutdownTimeout time.Duration

	// Finishers are finished, in this order, when the listener closes.
	Finishers []Finisher

	// TLS makes Serve accept TLS only. nil means plain HTTP.
	TLS *tls.Config

	// Tokens are the bearer tokens, one of which each request must have, except those
	// that read /, /health, /ready and /v1/openapi.json. nil or empty Tokens require
	// none.
	Tokens *Tokens

	// Hosts are the names that requests may have in their header Host, besides IP
	// addresses and localhost. nil allows every name. For a gateway without tokens
	// that listens on loopback Hosts must not be nil: otherwise web pages could read
	// its answers by DNS rebinding.
	Hosts []string

	// RateLimit is the maximal number of requests per second of each client, and
	// RateBurst that of requests at once; a client is an IPv4 address or an IPv6 /64.
	// Requests of web pages of other origins count apart. RateLimit 0 means no limit.
	// RateBurst 0 means twice RateLimit, which is rounded up to a whole number first.
	RateLimit float64
	RateBurst int

	// MaxConnections is the maximum of open connections, and MaxConnectionsPerIP that of
	// one client address, for IPv6 of one /64. 0 means no limit. They count those of
	// package dflockdtcp with the same Lending, too.
	MaxConnections, MaxConnectionsPerIP int

	// TrustedProxies are the networks of proxies whose header X-Forwarded-For or
	// Forwarded names the client of a request. MaxConnectionsPerIP does not apply to
	// them.
	TrustedProxies []netip.Prefix

	// CORSOrigins are the origins whose web pages may send requests, such as
	// "https://example.com"; "*" allows every origin.
	CORSOrigins []string

	// Collectors are further metrics for /metrics, such as those of package metrics.
	Collectors []prometheus.Collector

	// Version is the version in the metric kvslots_build_info and in /v1/openapi.json.
	Version string

	// Logger receives a line for each request: at level info if the status is 5xx, and
	// otherwise at level debug. The lines contain routes instead of paths, which are
	// secrets. nil means no log.
	Logger *slog.Logger
}

// Dialect is an API that clients use over HTTP. It may also be an ErrorRenderer or a PageServer.
type Dialect interface {
	// Mount adds the dialect's routes to r. The gateway itself answers requests for
	// other paths and methods. A dialect must not mount a router within r: chi would
	// take its root for a route with every method, which Allow would list.
	Mount(r chi.Router)
}

// Finisher has pending work that may take long. Finish accepts no more work, and returns
// when the pending work has ended. When ctx ends first, Finish gives up the rest within a
// bounded time, so that the requests for it are still answered.
type Finisher interface{ Finish(ctx context.Context) }

// Gateway is an HTTP server in front of the pools.
type Gateway struct {
	cfg     Config // without what is in opened
	opened  atomic.Pointer[opened]
	log     *slog.Logger
	metrics *httpMetrics
	server  *http.Server

	// Each has its own buckets, so that a web page cannot use up those of the user in whose
	// browser it is: pages counts what guardPages refuses and what isForeign reports,
	// preflights what answerPreflight answers, and limiter the rest. All are nil without a
	// limit.
	limiter, pages, preflights *rateLimiter

	cors        *cors.Cors // nil without Config.CORSOrigins
	sameOrigin  http.CrossOriginProtection
	toldOrigin  sync.Once
	description []byte // the answer of /v1/openapi.json

	connections *connections
	limited     atomic.Int64              // requests beyond a rate
	checkBegan  atomic.Pointer[time.Time] // of the store's readiness; nil between checks
}

// opened is what a gateway has of its latest Open: Store, Sync, Dialects and Finishers.
type opened struct {
	Config
	handler http.Handler
}

// Open puts the Store, Sync, Dialects and Finishers of a configuration in force, and adds its Collectors.
// Before, a program without a store serves one that says why it is not ready, and Unavailable.
func (g *Gateway) Open(cfg Config) {
	g.metrics.registry.MustRegister(cfg.Collectors...)
	g.opened.Store(&opened{cfg, g.router(cfg.Dialects)})
}

// New returns a Gateway, which accepts no connections before Serve is called.
func New(cfg Config) *Gateway {
	if cfg.Lending == nil {
		cfg.Lending = NewLending()
	}
	if cfg.ShutdownTimeout == 0 {
		cfg.ShutdownTimeout = shutdownTimeout
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	cfg.Lending.Connections.LimitTo(Limits{Total: cfg.MaxConnections, PerIP: cfg.MaxConnectionsPerIP}, trustedProxies(cfg.TrustedProxies).contain)
	g := &Gateway{
		cfg: cfg, log: cfg.Logger,
		cors: newCORS(cfg.CORSOrigins), description: newDescription(cfg.Version),
		connections: newConnections(cfg),
	}
	g.metrics = newMetrics(g)
	g.metrics.registry.MustRegister(g.limitMetrics()...)
	if cfg.RateLimit > 0 {
		for _, limiter := range []**rateLimiter{&g.limiter, &g.pages, &g.preflights} {
			*limiter = newRateLimiter(cfg.RateLimit, cfg.RateBurst)
		}
		cfg.Lending.MayGuess = func(client netip.Addr) bool { return !g.limiter.decide(client).refused }
	}
	g.server = g.newServer()
	g.Open(cfg)
	return g
}

// Handler returns the handler of all requests, for use without Serve.
func (g *Gateway) Handler() http.Handler {
	return g.opened.Load().handler
}

func (g *Gateway) router(dialects []Dialect) http.Handler {
	r := chi.NewRouter()
	r.Use(g.handle)
	r.NotFound(g.notFound)
	r.MethodNotAllowed(g.methodNotAllowed)
	getAndHead(r, "/", g.greet)
	getAndHead(r, "/health", g.health)
	getAndHead(r, "/ready", g.ready)
	getAndHead(r, "/metrics", g.serveMetrics)
	getAndHead(r, "/v1/openapi.json", g.describe)
	for _, dialect := range dialects {
		dialect.Mount(r)
	}
	return r
}

// handle is the only middleware: it logs and counts each request, and passes it on if the
// gateway admits it.
func (g *Gateway) handle(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorder := g.observe(w, r)
		defer g.observed(recorder, r) // also when a handler aborts the connection
		defer g.recoverPanic(recorder, r)
		if g.prepare(recorder, r); g.admit(recorder, r) {
			next.ServeHTTP(recorder, r)
		}
	})
}

// admit reports whether a handler may serve a request. Otherwise it has answered.
func (g *Gateway) admit(w http.ResponseWriter, r *http.Request) bool {
	return g.admitConnection(w, r) && !g.answerPreflight(w, r) && g.guardPages(w, r) &&
		g.limitRate(w, r) && // precedes authentication, to limit guesses at the token
		g.authenticate(w, r)
}

func getAndHead(r chi.Router, pattern string, handler http.HandlerFunc) {
	r.Get(pattern, handler)
	r.Head(pattern, handler)
}
