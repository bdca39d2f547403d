package settings

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

func TestAllowedHosts(t *testing.T) {
	for _, c := range []struct {
		name string
		of   *Serve
		want []string
	}{
		{"loopback", &Serve{HTTPAddr: "127.0.0.1:8080"}, []string{}},
		{"loopback, version 6", &Serve{HTTPAddr: "[::1]:8080"}, []string{}},
		{"localhost", &Serve{HTTPAddr: "localhost:8080"}, []string{}},
		{"names", &Serve{HTTPAddr: "127.0.0.1:8080", http: gateway.Config{Hosts: []string{"a", "b"}}}, []string{"a", "b"}},
		{"token", &Serve{HTTPAddr: "127.0.0.1:8080", token: Token{Value: "x"}}, nil},
		{"token and names", &Serve{HTTPAddr: "127.0.0.1:8080", token: Token{path: "x"}, http: gateway.Config{Hosts: []string{"a"}}}, []string{"a"}},
		{"everywhere", &Serve{HTTPAddr: ":8080"}, nil},
		{"everywhere, with names", &Serve{HTTPAddr: "0.0.0.0:8080", http: gateway.Config{Hosts: []string{"a"}}}, []string{"a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.of.HTTP().Hosts; !slices.Equal(got, c.want) || (got == nil) != (c.want == nil) {
				t.Errorf("got %#v, want %#v", got, c.want)
			}
		})
	}
}

func TestTrustedProxies(t *testing.T) {
	var got []netip.Prefix
	flag := list(&got, "networks", parseNetwork)
	kvslotstest.Must(t, flag.Set("10.0.0.0/8, 192.0.2.1,2001:db8::1/32,::ffff:192.0.2.2"))
	want := []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.1/32"),
		netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("192.0.2.2/32"),
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, wrong := range []string{"proxy", "10.0.0.0/33", "10.0.0.0/", "*", "10.0.0.1:80", "::ffff:10.0.0.0/104"} {
		if flag.Set(wrong) == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
}
