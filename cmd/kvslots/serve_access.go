package main

import (
	"net"
	"net/netip"
)

// isLoopback reports whether only clients on this machine can reach an address.
func isLoopback(address string) bool {
	host, _, _ := net.SplitHostPort(address) // was checked when the flag was set
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// allowedHosts returns the names that the header Host may have, or nil for every name.
// On loopback every page in the browser of a user of this machine reaches the gateway.
func (s *settings) allowedHosts() []string {
	if s.httpHosts == "" && (s.controlsAccess() || !isLoopback(s.httpAddr)) {
		return nil
	}
	return append([]string{}, splitList(s.httpHosts)...)
}

// controlsAccess reports whether HTTP clients must authenticate.
func (s *settings) controlsAccess() bool { return s.authToken.given() }
