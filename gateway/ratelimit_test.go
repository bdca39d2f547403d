package gateway

import (
	"encoding/binary"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"
)

// stoppedClock advances only when a test sets it.
type stoppedClock struct{ time time.Time }

func (c *stoppedClock) now() time.Time { return c.time }

func (c *stoppedClock) pass(d time.Duration) { c.time = c.time.Add(d) }

func newStoppedLimiter(perSecond float64, burst int) (*rateLimiter, *stoppedClock) {
	l, clock := newRateLimiter(perSecond, burst), &stoppedClock{time.Unix(1_700_000_000, 0)}
	l.now = clock.now
	return l, clock
}

// allowed returns how many of n requests at once are served.
func allowed(l *rateLimiter, addr string, requests int) (count int) {
	for range requests {
		if !l.decide(netip.MustParseAddr(addr)).refused {
			count++
		}
	}
	return count
}

func TestRateLimiter(t *testing.T) {
	const me = "192.0.2.1"
	for _, c := range []struct {
		name       string
		perSecond  float64
		burst      int
		atOnce     int // of many requests
		retryAfter int
		later      int // of many requests, 10 s later
	}{
		{"one a second", 1, 1, 1, 1, 1},
		{"with a burst", 1, 5, 5, 1, 5},
		{"with a larger one", 1, 50, 50, 1, 10},
		{"twice the rate by default", 3, 0, 6, 1, 6},
		{"rounded up", 2.5, 0, 6, 1, 6},
		{"seldom", 0.2, 0, 2, 5, 2},
		{"hardly ever", 0.001, 1, 1, 1000, 0},
		{"practically never", 1e-300, 1, 1, maxRetryAfter, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, clock := newStoppedLimiter(c.perSecond, c.burst)
			if got := allowed(l, me, 100); got != c.atOnce {
				t.Errorf("%d at once, want %d", got, c.atOnce)
			}
			if got := l.decide(netip.MustParseAddr(me)).retryAfter; got != c.retryAfter {
				t.Errorf("retry after %d s, want %d", got, c.retryAfter)
			}
			clock.pass(10 * time.Second)
			if got := allowed(l, me, 100); got != c.later {
				t.Errorf("%d later, want %d", got, c.later)
			}
		})
	}
}

// A client that repeats its request after Retry-After is served.
func TestRetryAfterIsEnough(t *testing.T) {
	for _, perSecond := range []float64{0.013, 0.3, 1, 7, 333} {
		l, clock := newStoppedLimiter(perSecond, 3)
		for range 20 {
			allowed(l, "192.0.2.1", 10)
			retryAfter := l.decide(netip.MustParseAddr("192.0.2.1")).retryAfter
			clock.pass(time.Duration(retryAfter) * time.Second)
			if allowed(l, "192.0.2.1", 1) != 1 {
				t.Errorf("at %g/s refused after Retry-After: %d", perSecond, retryAfter)
			}
			clock.pass(time.Millisecond)
		}
	}
}

func TestClientOf(t *testing.T) {
	for _, c := range []struct {
		name, one, other string
		same             bool
	}{
		{"IPv4", "192.0.2.1", "192.0.2.1", true},
		{"two of IPv4", "192.0.2.1", "192.0.2.2", false},
		{"IPv4 in IPv6", "192.0.2.1", "::ffff:192.0.2.1", true},
		{"two of IPv4 in IPv6", "::ffff:192.0.2.1", "::ffff:192.0.2.2", false},
		{"one /64", "2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", true},
		{"two /64", "2001:db8::1", "2001:db8:0:1::1", false},
		{"NAT64", "192.0.2.1", "64:ff9b::192.0.2.1", true},
		{"two of NAT64", "64:ff9b::192.0.2.1", "64:ff9b::192.0.2.2", false},
		{"6to4", "192.0.2.1", "2002:c000:201:ffff::1", true},
		{"two /64 of 6to4", "2002:c000:201:1::1", "2002:c000:201:2::1", true},
		{"two of 6to4", "2002:c000:201::1", "2002:c000:202::1", false},
		{"zones", "fe80::1%eth0", "fe80::1%eth1", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, _ := newStoppedLimiter(1, 1)
			allowed(l, c.one, 1)
			if got := allowed(l, c.other, 1) == 0; got != c.same {
				t.Errorf("taken for one client: %v", got)
			}
		})
	}
}

func TestClientsAreBounded(t *testing.T) {
	l, _ := newStoppedLimiter(0.001, 1)
	for i := range uint32(maxClients + 100) {
		l.decide(addressOf(i))
	}
	if len(l.clients) != maxClients || l.recent.Len() != maxClients {
		t.Errorf("%d clients, %d in the list", len(l.clients), l.recent.Len())
	}
	if allowed(l, addressOf(maxClients).String(), 1) != 0 {
		t.Error("a recent one was forgotten")
	}
}

func addressOf(i uint32) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, 10<<24+i)))
}

func TestLimitRate(t *testing.T) {
	g := newGuardedGateway(func(cfg *Config) { cfg.RateLimit, cfg.RateBurst, cfg.Tokens = 0.001, 3, NewTokens(token) })
	g.limiter.now = (&stoppedClock{time.Now()}).now
	from := func(address, method, path string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, nil)
		r.RemoteAddr = address
		answer := httptest.NewRecorder()
		g.Handler().ServeHTTP(answer, r)
		return answer
	}
	for _, path := range []string{"/t/1", "/nothing", "/v1/locks/k"} { // refused requests count, too
		if got := from("192.0.2.1:1001", "GET", path).Code; got != 401 {
			t.Errorf("%s: %d", path, got)
		}
	}
	for _, c := range []struct {
		address, method, path string
		code                  int
		body                  string
	}{
		{"192.0.2.1:1002", "GET", "/t/1", 429, `{"error":"rate limited"}`},
		{"192.0.2.1:1003", "GET", "/v1/locks/k", 429, "rate_limited: rate limited"},
		{"192.0.2.1:1003", "GET", "/v1/openapi.json", 429, "rate_limited: rate limited"},
		{"192.0.2.1:1003", "POST", "/health", 429, `{"error":"rate limited"}`},
		{"192.0.2.1:1003", "GET", "/metrics", 429, `{"error":"rate limited"}`},
		{"192.0.2.1:1003", "GET", "/health", 200, `{"status":"ok"}`},
		{"192.0.2.1:1003", "HEAD", "/ready", 200, `{"status":"ready","sync":"always"}`},
		{"192.0.2.2:1001", "GET", "/nothing", 401, `{"error":"unauthorized"}`},
		{"@", "GET", "/nothing", 401, `{"error":"unauthorized"}`},
	} {
		answer := from(c.address, c.method, c.path)
		if answer.Code != c.code || answer.Body.String() != c.body {
			t.Errorf("%s %s from %s: %d %s, want %d %s", c.method, c.path, c.address, answer.Code, answer.Body, c.code, c.body)
		}
		if retryAfter := answer.Header().Get("Retry-After"); (retryAfter == "1000") != (c.code == 429) {
			t.Errorf("%s %s from %s: Retry-After %q", c.method, c.path, c.address, retryAfter)
		}
	}
}

func TestNoRateLimit(t *testing.T) {
	g := newGuardedGateway(func(*Config) {})
	for range 1000 {
		if got := ask(g, "GET", "/t/1").Code; got != 200 {
			t.Fatal(got)
		}
	}
}
