package ops

import "net/netip"

// ipv6Client is the number of bits of an IPv6 address that identify a client: one host can
// commonly take any address of a /64.
const ipv6Client = 64

// ClientOf returns the network by which limits per address count a client: an IPv4 address,
// or the /64 of an IPv6 address. All clients whose address is unknown, as over a Unix
// socket, count as one.
func ClientOf(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap()
	bits := addr.BitLen()
	if addr.Is6() {
		bits = ipv6Client
	}
	prefix, _ := addr.Prefix(bits)
	return prefix
}

// origin returns the network of the client with an address and port, as text.
func origin(remote string) string {
	address, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	client := ClientOf(address.Addr())
	if client.Addr().Is4() {
		return client.Addr().String()
	}
	return client.String()
}
