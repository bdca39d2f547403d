package gateway

import (
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

func TestClientAddress(t *testing.T) {
	proxies := trustedProxies{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:ffff::/48")}
	const proxy, stranger = "10.0.0.1:4000", "198.51.100.9:4000"
	for _, c := range []struct {
		name, peer string
		headers    []string
		want       string
	}{
		{"no proxy", stranger, []string{"X-Forwarded-For: 192.0.2.1", "Forwarded: for=192.0.2.1"}, stranger},
		{"a proxy that says nothing", proxy, nil, proxy},
		{"its client", proxy, []string{"X-Forwarded-For: 192.0.2.1"}, "192.0.2.1:0"},
		{"with a port", proxy, []string{"X-Forwarded-For: 192.0.2.1:1234"}, "192.0.2.1:0"},
		{"what the client wrote before", proxy, []string{"X-Forwarded-For: 203.0.113.5, 192.0.2.1"}, "192.0.2.1:0"},
		{"in lines of its own", proxy, []string{"X-Forwarded-For: 203.0.113.5", "X-Forwarded-For: 192.0.2.1"}, "192.0.2.1:0"},
		{"two proxies", proxy, []string{"X-Forwarded-For: 203.0.113.5, 192.0.2.1, 10.9.9.9"}, "192.0.2.1:0"},
		{"the client is in a proxy's network", proxy, []string{"X-Forwarded-For: 10.1.1.1"}, "10.1.1.1:0"},
		{"a client in a proxy's network writes one", proxy, []string{"X-Forwarded-For: 10.5.5.5, 10.1.1.1"}, "10.1.1.1:0"},
		{"it writes several", proxy, []string{"X-Forwarded-For: 10.5.5.5, 10.6.6.6, 10.1.1.1"}, "10.1.1.1:0"},
		{"it writes nonsense", proxy, []string{"X-Forwarded-For: nonsense, 10.6.6.6, 10.1.1.1"}, "10.1.1.1:0"},
		{"it writes Forwarded", proxy, []string{"Forwarded: for=10.5.5.5, for=10.1.1.1"}, "10.1.1.1:0"},
		{"nonsense at the end", proxy, []string{"X-Forwarded-For: 192.0.2.1, nonsense"}, proxy},
		{"nonsense before a proxy", proxy, []string{"X-Forwarded-For: nonsense, 10.2.2.2"}, "10.2.2.2:0"},
		{"empty", proxy, []string{"X-Forwarded-For: "}, proxy},
		{"IPv6", "[2001:db8:ffff::1]:4000", []string{"X-Forwarded-For: 2001:db8::7"}, "[2001:db8::7]:0"},
		{"IPv4 in IPv6", "[::ffff:10.0.0.1]:4000", []string{"X-Forwarded-For: ::ffff:192.0.2.1"}, "192.0.2.1:0"},
		{"Forwarded", proxy, []string{"Forwarded: for=192.0.2.1;proto=https;by=10.0.0.1"}, "192.0.2.1:0"},
		{"Forwarded, quoted", proxy, []string{`Forwarded: proto=https; For="[2001:db8::7]:4711"`}, "[2001:db8::7]:0"},
		{"Forwarded, a chain", proxy, []string{`Forwarded: for="203.0.113.5, for=192.0.2.1, for=10.3.3.3`}, "192.0.2.1:0"},
		{"Forwarded, with a comma in the client's Host", proxy, []string{`Forwarded: for=192.0.2.1;host="a,for=203.0.113.5"`}, "192.0.2.1:0"},
		{"Forwarded, with a semicolon in the client's Host", proxy, []string{`Forwarded: host="a;for=203.0.113.5";for=192.0.2.1`}, "192.0.2.1:0"},
		{"Forwarded, with a quote in the client's Host", proxy, []string{`Forwarded: for=192.0.2.1;host="a\",for=203.0.113.5\\"`}, "192.0.2.1:0"},
		{"Forwarded, hidden", proxy, []string{"Forwarded: for=_hidden"}, proxy},
		{"both alike", proxy, []string{"X-Forwarded-For: 192.0.2.1", "Forwarded: for=192.0.2.1"}, "192.0.2.1:0"},
		{"the client wrote the other header", proxy, []string{"X-Forwarded-For: 203.0.113.5", "Forwarded: for=192.0.2.1"}, proxy},
		{"over a Unix socket", "@", []string{"X-Forwarded-For: 192.0.2.1"}, "@"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = c.peer
			for _, header := range c.headers {
				name, value, _ := strings.Cut(header, ": ")
				r.Header.Add(name, value)
			}
			if got := proxies.remoteAddr(r); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// The rate is limited for the client behind a proxy, not for the proxy.
func TestRateOfClientsBehindAProxy(t *testing.T) {
	g := newGuardedGateway(func(cfg *Config) {
		cfg.RateLimit, cfg.RateBurst = 0.001, 1
		cfg.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} // that of httptest
	})
	for i, c := range []struct {
		client string
		code   int
	}{{"198.51.100.1", 200}, {"198.51.100.1", 429}, {"198.51.100.2", 200}, {"198.51.100.2", 429}} {
		if got := ask(g, "GET", "/t/1", "X-Forwarded-For: "+c.client).Code; got != c.code {
			t.Errorf("request %d of %s: %d, want %d", i, c.client, got, c.code)
		}
	}
	if g.limited.Load() != 2 {
		t.Errorf("%d refusals are counted", g.limited.Load())
	}
}
