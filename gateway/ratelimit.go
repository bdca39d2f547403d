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

	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	// maxClients is how many clients' rates are kept, about 20 MB. Beyond it
	// the clients that have not asked for longest are forgotten, and may begin anew.
	maxClients = 1 << 16

	// ipv6Client is how much of an IPv6 address tells clients apart: a single
	// one commonly has all of a /64 to choose from.
	ipv6Client = 64

	// maxRefill is longer than anybody waits and fits a time.Duration; in
	// seconds.
	maxRefill = 1e9
)

// rateLimiter gives each client a bucket of tokens. It forgets a client once
// its bucket is full again, as a new one would be, and so needs no goroutine:
// each request sweeps up after other clients.
type rateLimiter struct {
	perSecond rate.Limit
	burst     int
	refill    time.Duration    // of an empty bucket
	now       func() time.Time // time.Now, or a test's

	mu      sync.Mutex
	clients map[netip.Prefix]*list.Element // of *client
	recent  *list.List                     // the one that asked last is in front
}

type client struct {
	prefix netip.Prefix
	bucket *rate.Limiter
	asked  time.Time
}

// newRateLimiter allows perSecond requests a second, and burst at once; twice
// as many as in a second if burst is 0.
func newRateLimiter(perSecond float64, burst int) *rateLimiter {
	if burst == 0 {
		burst = 2 * int(math.Ceil(perSecond))
	}
	return &rateLimiter{
		perSecond: rate.Limit(perSecond),
		burst:     burst,
		refill:    time.Duration(min(float64(burst)/perSecond, maxRefill) * float64(time.Second)),
		now:       time.Now,
		clients:   make(map[netip.Prefix]*list.Element),
		recent:    list.New(),
	}
}

// allow takes a token from the client's bucket, or says in how many seconds
// there will be one.
func (l *rateLimiter) allow(addr netip.Addr) (ok bool, retryAfter int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	bucket := l.clientLocked(clientOf(addr), now).bucket
	if bucket.AllowN(now, 1) {
		return true, 0
	}
	missing := 1 - bucket.TokensAt(now)
	return false, int(min(math.Ceil(missing/float64(l.perSecond)), maxRefill))
}

// clientLocked finds the client, or makes room for it.
func (l *rateLimiter) clientLocked(prefix netip.Prefix, now time.Time) *client {
	element, known := l.clients[prefix]
	if known {
		l.recent.MoveToFront(element)
	} else {
		l.sweepLocked(now)
		element = l.recent.PushFront(&client{prefix: prefix, bucket: rate.NewLimiter(l.perSecond, l.burst)})
		l.clients[prefix] = element
	}
	found := element.Value.(*client)
	found.asked = now
	return found
}

// sweepLocked forgets those whose buckets are full, two at most, so that it
// keeps up with newcomers and takes no longer than they do; and one more when
// there is no room.
func (l *rateLimiter) sweepLocked(now time.Time) {
	for range 2 {
		oldest := l.recent.Back()
		if oldest == nil {
			return
		}
		idle := now.Sub(oldest.Value.(*client).asked) >= l.refill
		if !idle && len(l.clients) < maxClients {
			return
		}
		delete(l.clients, l.recent.Remove(oldest).(*client).prefix)
	}
}

// clientOf is what tells clients apart. Those whose address is not known, as
// over a Unix socket, are all one.
func clientOf(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap()
	bits := addr.BitLen()
	if addr.Is6() {
		bits = ipv6Client
	}
	prefix, _ := addr.Prefix(bits)
	return prefix
}

// limitRate refuses clients that ask too often (README.md, "Access"), but
// never the probes of the operator.
func (g *Gateway) limitRate(next http.Handler) http.Handler {
	if g.limiter == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !reads(r, probes) {
			remote, _ := netip.ParseAddrPort(r.RemoteAddr)
			if ok, retryAfter := g.limiter.allow(remote.Addr()); !ok {
				g.limited.Add(1)
				w.Header().Set(wire.RetryAfterHeader, strconv.Itoa(retryAfter))
				g.fail(w, r, wire.RateLimited)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
