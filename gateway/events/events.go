package events

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/gateway/metrics"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// Store is the part of a *kvslots.Store that the streams use.
type Store interface {
	Watch(after uint64, pools ...kvslots.PoolRef) kvslots.EventReader
	kvslots.Operator // to find pools
}

// Config configures a Dialect.
type Config struct {
	// Lending is the *gateway.Lending that all transports of the gateway share. The streams
	// end when it is stopped.
	Lending *ops.Lending

	// MaxStreams is the maximum of open streams, and MaxStreamsPerIP that of one client
	// address, for IPv6 of one /64. 0 means DefaultMaxStreams and DefaultMaxStreamsPerIP.
	MaxStreams, MaxStreamsPerIP int

	// WriteTimeout is how long a client may not read before its stream is cut. 0 means 10 s.
	WriteTimeout time.Duration

	// KeepAlive is how often a stream without events sends a comment: proxies cut connections
	// that are silent for longer, often after 30 or 60 s. 0 means 15 s.
	KeepAlive time.Duration

	// Logger receives a line at level debug for each stream whose client reads too slowly.
	// nil means no log.
	Logger *slog.Logger
}

const (
	DefaultMaxStreams      = 256
	DefaultMaxStreamsPerIP = 64
)

// maxNames is how many pools, locks and semaphores one stream may name.
const maxNames = 100

// Dialect serves wire.EventsPath and wire.PoolEventsPath.
type Dialect struct {
	store   Store
	lending *ops.Lending
	log     *slog.Logger
	limit   ops.Limiter[string] // of open streams, by ops.Origin

	writeTimeout, keepAlive time.Duration

	sent, resets, cut atomic.Int64
}

// New returns a Dialect that serves the events of a store, such as a *kvslots.Store.
func New(store Store, cfg Config) *Dialect {
	d := &Dialect{
		store: store, lending: cfg.Lending, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)),
		writeTimeout: cmp.Or(cfg.WriteTimeout, writeTimeout), keepAlive: cmp.Or(cfg.KeepAlive, keepAlive),
	}
	d.limit.Limit(ops.Limits{Total: cmp.Or(cfg.MaxStreams, DefaultMaxStreams), PerIP: cmp.Or(cfg.MaxStreamsPerIP, DefaultMaxStreamsPerIP)})
	return d
}

// Mount adds the routes.
func (d *Dialect) Mount(r chi.Router) {
	for path, handler := range map[string]http.HandlerFunc{
		wire.EventsPath:     d.handle(d.parseAll, wire.CodeOf),
		wire.PoolEventsPath: d.handle(d.parsePool, wire.StatusOf),
	} {
		r.Get(path, handler)
		r.Head(path, handler)
	}
}

// Collectors returns the metrics of the streams.
func (d *Dialect) Collectors() []prometheus.Collector {
	return []prometheus.Collector{
		metrics.Gauge("kvslots_event_streams", "Open streams of events.", nil, func() float64 { return float64(d.limit.Open()) }),
		metrics.Counter("kvslots_events_sent_total", "Events that streams have sent.", nil, counterOf(&d.sent)),
		metrics.Counter("kvslots_event_resets_total", "Times that a stream has told its client to read the state anew.", nil, counterOf(&d.resets)),
		metrics.Counter("kvslots_event_streams_cut_total", "Streams that were cut because their client read too slowly.", nil, counterOf(&d.cut)),
		metrics.Limit(wire.CodeOf(wire.ErrMaxStreams).Name, d.limit.Refused.Load),
		metrics.Limit(wire.CodeOf(wire.ErrMaxStreamsPerIP).Name, d.limit.RefusedPerIP.Load),
	}
}

func counterOf(n *atomic.Int64) func() float64 { return func() float64 { return float64(n.Load()) } }

type filter struct {
	pools []kvslots.PoolRef   // none: those of all pools, and those about none
	types []kvslots.EventType // none: all
	find  []string            // texts that name further pools
	check bool                // there must be such a pool, since a client with a wrong id would wait for ever
}

func (f *filter) matches(e *kvslots.Event) bool {
	return e.Type == kvslots.EventStartsOver || len(f.types) == 0 || slices.Contains(f.types, e.Type)
}

func (d *Dialect) handle(parse func(*http.Request) (filter, error), statusOf wire.Lookup) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := d.serve(w, r, parse); err != nil {
			jsonhttp.Refuse(w, statusOf(err))
		}
	}
}

// serve sends events until the client or the gateway ends. It returns an error if it has sent
// nothing.
func (d *Dialect) serve(w http.ResponseWriter, r *http.Request, parse func(*http.Request) (filter, error)) error {
	f, err := parse(r)
	if err != nil {
		return err
	}
	if d.lending.Stopped() {
		return wire.ErrDraining
	}
	origin := ops.Origin(r.RemoteAddr)
	if err := [...]error{nil, wire.ErrMaxStreams, wire.ErrMaxStreamsPerIP}[d.limit.Enter(origin)]; err != nil {
		return err
	}
	defer d.limit.Leave(origin)
	if err := d.find(r.Context(), origin, &f); err != nil {
		return err
	}
	if r.Method == http.MethodHead {
		header(w)
		w.WriteHeader(http.StatusOK)
		return nil
	}
	after, _ := strconv.ParseUint(r.Header.Get(wire.LastEventIDHeader), 10, 64) // 0 for what is no ID: the stream starts over
	watcher := d.store.Watch(after, f.pools...)
	defer watcher.Close()
	s := &stream{dialect: d, filter: f, watcher: watcher, w: w, r: r, control: http.NewResponseController(w)}
	s.run()
	return nil
}

// find adds the pools that the texts name, which takes a turn of the client's.
func (d *Dialect) find(ctx context.Context, origin string, f *filter) error {
	if f.check {
		_, err := d.store.ReadPool(ctx, f.pools[0], kvslots.DetailPage{MaxHolders: -1})
		return err
	}
	if len(f.find) == 0 {
		return nil
	}
	type named struct{ texts string }
	found, err := d.lending.Read(ctx, origin, named{strings.Join(f.find, "\x00")}, func(ctx context.Context) (any, error) {
		var pools []kvslots.PoolRef
		for _, text := range f.find {
			pool, err := d.store.FindPool(ctx, text)
			if err != nil {
				return nil, err
			}
			pools = append(pools, pool)
		}
		return pools, nil
	})
	if errors.Is(err, kvslots.ErrNoPool) {
		return &kvslots.RangeError{Field: wire.EventPool, Range: "the hash of a pool, or its first 8 digits or more, or its name"}
	}
	if err == nil {
		f.pools = append(f.pools, found.([]kvslots.PoolRef)...)
	}
	return err
}

// parseAll reads the parameters of wire.EventsPath. A pool's id in wire.PoolHeader counts as one
// of the pools.
func (d *Dialect) parseAll(r *http.Request) (f filter, err error) {
	query, err := parameters(r, wire.EventPool, wire.EventKey, wire.EventType)
	if err != nil {
		return f, err
	}
	if len(query[wire.EventPool])+len(query[wire.EventKey]) > maxNames {
		return f, &kvslots.RangeError{Field: "query", Range: "at most " + strconv.Itoa(maxNames) + " pools, locks and semaphores"}
	}
	for _, hash := range query[wire.EventPool] {
		if pool, err := kvslots.ByHash(hash); err == nil {
			f.pools = append(f.pools, pool)
		} else {
			f.find = append(f.find, hash)
		}
	}
	for _, key := range query[wire.EventKey] {
		if err := wire.CheckKey(key); err != nil {
			return f, err
		}
		f.pools = append(f.pools, kvslots.ByName(key))
	}
	if len(r.Header.Values(wire.PoolHeader)) > 0 {
		pool, err := poolOf(wire.Source{HTTP: true, Param: wire.PoolInHeader, Header: r.Header})
		if err != nil {
			return f, err
		}
		f.pools = append(f.pools, pool)
	}
	f.types, err = types(query[wire.EventType])
	return f, err
}

// parsePool reads the parameters of wire.PoolEventsPath.
func (d *Dialect) parsePool(r *http.Request) (f filter, err error) {
	pool, err := poolOf(jsonhttp.SourceOf(r))
	if err != nil {
		return f, err
	}
	query, err := parameters(r, wire.EventType)
	if err != nil {
		return f, err
	}
	f.pools, f.check = []kvslots.PoolRef{pool}, true
	f.types, err = types(query[wire.EventType])
	return f, err
}

// poolOf returns the pool that a path names, or a header.
func poolOf(from wire.Source) (kvslots.PoolRef, error) {
	var p wire.Params
	err := wire.InspectPool.Read(&from, &p)
	return kvslots.ByID(p.Pool), err
}

// parameters returns the query, which may have the given parameters only: a misspelt one would
// show events that the client did not ask for.
func parameters(r *http.Request, known ...string) (url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	for name := range query {
		if err != nil || !slices.Contains(known, name) {
			err = &kvslots.RangeError{Field: "query", Range: "no parameters but " + strings.Join(known, ", ")}
		}
	}
	if err != nil && len(query) == 0 {
		err = &kvslots.RangeError{Field: "query", Range: "well-formed"}
	}
	return query, err
}

func types(lists []string) (types []kvslots.EventType, err error) {
	for _, list := range lists {
		for name := range strings.SplitSeq(list, ",") {
			t := kvslots.EventType(name)
			if !slices.Contains(kvslots.EventTypes, t) {
				return nil, &kvslots.RangeError{Field: wire.EventType, Range: "types of events, separated by commas"}
			}
			if !slices.Contains(types, t) {
				types = append(types, t)
			}
		}
	}
	return types, nil
}
