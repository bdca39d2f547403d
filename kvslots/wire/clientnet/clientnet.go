// Package clientnet has the rule by which limits per address count clients.
package clientnet

import "net/netip"

// ipv6Bits is the number of bits of an IPv6 address that identify a client: one host can
// commonly take any address of a /64.
const ipv6Bits = 64

// Of returns the network by which limits per address count a client: an IPv4 address, or
// the /64 of an IPv6 address. All clients whose address is unknown, as over a Unix socket,
// count as one.
func Of(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap()
	bits := addr.BitLen()
	if addr.Is6() {
		bits = ipv6Bits
	}
	prefix, _ := addr.Prefix(bits)
	return prefix
}
