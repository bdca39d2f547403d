// Package clientnet has the rule by which limits per address count clients.
package clientnet

import "net/netip"

// ipv6Bits is the number of bits of an IPv6 address that identify a client: one host can
// commonly take any address of a /64.
const ipv6Bits = 64

// embedding are the networks whose IPv6 addresses contain an IPv4 address, which begins at a
// byte. A NAT64 translator gives the addresses of all IPv4 hosts the same /64, and by 6to4
// each IPv4 host has 65,536 of them.
var embedding = []struct {
	net netip.Prefix
	at  int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12}, // NAT64, RFC 6052
	{netip.MustParsePrefix("2002::/16"), 2},     // 6to4, RFC 3056
}

// Of returns the network by which limits per address count a client: an IPv4 address, also
// if NAT64 or 6to4 has put it into an IPv6 address, or the /64 of another IPv6 address. All
// clients whose address is unknown, as over a Unix socket, count as one.
func Of(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap().WithZone("")
	for _, e := range embedding {
		if e.net.Contains(addr) {
			all := addr.As16()
			addr = netip.AddrFrom4([4]byte(all[e.at:]))
		}
	}
	bits := addr.BitLen()
	if addr.Is6() {
		bits = ipv6Bits
	}
	prefix, _ := addr.Prefix(bits)
	return prefix
}
