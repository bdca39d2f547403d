package gateway

import (
	"container/list"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/kvslots/kvslots/kvslots/clientnet"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	// maxClients is the maximum of clients whose rates are kept, which takes about 25 MB.
	// Beyond it the client whose last request is the oldest gets a new, full bucket.
	maxClients = 1 << 16

	// maxRetryAfter is in seconds. It is longer than any client waits.
	maxRetryAfter = 1e9
)

// rateLimiter has a bucket of tokens for each of the latest clients.
type rateLimiter struct {
	perSecond rate.Limit
	burst     int
	now       func() time.Time // time.Now, or the clock of a test

	mu      sync.Mutex
	clients map[netip.Prefix]*list.Element // of *client
	recent  *list.List                     // sorted by the last request, the latest first
}

type client struct {
	prefix   netip.Prefix
	bucket   *rate.Limiter
	refusals *rate.Limiter // of the same size: a client that empties it, too, floods the gateway
}

// newRateLimiter returns a limiter that allows perSecond requests per second, and burst at
// once. If burst is 0, it is twice perSecond, which is rounded up first.
func newRateLimiter(perSecond float64, burst int) *rateLimiter {
	if burst == 0 {
		burst = 2 * int(math.Ceil(perSecond))
	}
	return &rateLimiter{
		perSecond: rate.Limit(perSecond),
		burst:     burst,
		now:       time.Now,
		clients:   make(map[netip.Prefix]*list.Element),
		recent:    list.New(),
	}
}

type verdict struct {
	refused    bool
	retryAfter int  // seconds until the client's bucket has a token; 0 if not refused
	floods     bool // the client has also been refused more often than the limit allows requests
}

func (l *rateLimiter) decide(addr netip.Addr) verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	client := l.clientLocked(clientnet.Of(addr))
	if client.bucket.AllowN(now, 1) {
		return verdict{}
	}
	missing := 1 - client.bucket.TokensAt(now)
	return verdict{
		refused:    true,
		retryAfter: int(min(math.Ceil(missing/float64(l.perSecond)), maxRetryAfter)),
		floods:     !client.refusals.AllowN(now, 1),
	}
}

func (l *rateLimiter) clientLocked(prefix netip.Prefix) *client {
	element, known := l.clients[prefix]
	if known {
		l.recent.MoveToFront(element)
	} else {
		if len(l.clients) == maxClients {
			delete(l.clients, l.recent.Remove(l.recent.Back()).(*client).prefix)
		}
		element = l.recent.PushFront(&client{
			prefix: prefix,
			bucket: rate.NewLimiter(l.perSecond, l.burst), refusals: rate.NewLimiter(l.perSecond, l.burst),
		})
		l.clients[prefix] = element
	}
	return element.Value.(*client)
}

// limitRate refuses requests beyond a client's rate (README.md, "Access"), except those
// for probes.
func (g *Gateway) limitRate(w http.ResponseWriter, r *http.Request) bool {
	limiter := g.limiter
	if limiter != nil && g.isForeign(r) {
		limiter = g.pages
	}
	return reads(r, probes) || g.within(limiter, w, r)
}

// within reports whether a request is within a limiter's rate. Otherwise it has answered.
func (g *Gateway) within(limiter *rateLimiter, w http.ResponseWriter, r *http.Request) bool {
	v := g.decide(limiter, r)
	if v.refused {
		g.limited.Add(1)
		w.Header().Set(wire.RetryAfterHeader, strconv.Itoa(v.retryAfter))
		g.fail(w, r, wire.RateLimited)
	}
	return !v.refused
}

// decide counts a request, and makes the connection of a flood rest.
func (g *Gateway) decide(limiter *rateLimiter, r *http.Request) verdict {
	if limiter == nil {
		return verdict{}
	}
	remote, _ := netip.ParseAddrPort(r.RemoteAddr)
	v := limiter.decide(remote.Addr())
	if v.floods {
		g.connections.throttle(r)
	}
	return v
}
