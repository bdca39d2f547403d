package settings

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kvslots/kvslots/kvslots/subjects"
)

func address(target *string, initial string) value[string] {
	return checked(target, "host:port", func(text string) error {
		if !isAddress(text) {
			return fmt.Errorf(`must be host:port with a port between 0 and 65535, such as "127.0.0.1:8080" or ":0"`)
		}
		return nil
	}).with(initial)
}

// loopback is an address that other machines cannot reach.
func loopback(target *string) value[string] {
	return checked(target, "loopback:port", func(text string) error {
		if !isAddress(text) || !IsLoopback(text) {
			return fmt.Errorf(`must be host:port of a loopback address, with a port between 0 and 65535, such as "127.0.0.1:6060" or "[::1]:0"`)
		}
		return nil
	})
}

func isAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	return err == nil && isPort(port)
}

func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

// isURL reports whether text is a URL of one of the schemes, with a port to connect to or without a port.
func isURL(text string, schemes ...string) bool {
	parsed, err := url.Parse(text)
	return err == nil && parsed.Hostname() != "" && isPortOfURL(parsed.Port()) && slices.Contains(schemes, parsed.Scheme)
}

// isPortOfURL reports whether text is a port to connect to, or absent from the URL.
func isPortOfURL(text string) bool {
	return text == "" || isPort(text) && strings.Trim(text, "0") != ""
}

// parseNetwork parses a CIDR, or an address as the network of it alone. Its error contains
// text, which is no secret.
func parseNetwork(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()), nil
	}
	network, err := netip.ParsePrefix(text)
	if err != nil || network.Addr().Is4In6() { // addresses are compared as IPv4
		return netip.Prefix{}, fmt.Errorf(`%q must be an address or a network such as "10.0.0.0/8"`, text)
	}
	return network.Masked(), nil
}

var validHost = regexp.MustCompile(`^[A-Za-z0-9_](?:[\w.-]{0,252}[A-Za-z0-9_])?$`)

// checkHost returns an error, which contains text, unless that is the name of a host.
func checkHost(text string) error {
	if !validHost.MatchString(text) {
		return fmt.Errorf(`%q must be the name of a host without a port, such as "slots.example.com"`, text)
	}
	return nil
}

// checkOrigin returns an error, which contains text, unless that is an origin of web pages, or *.
func checkOrigin(text string) error {
	if !isOrigin(text) {
		return fmt.Errorf(`%q must be an origin such as "https://example.com" or "http://localhost:3000", or *`, text)
	}
	return nil
}

// isOrigin reports whether text is an origin as browsers send it, without a final
// slash: a scheme, a host, and a port if it is not the scheme's default.
func isOrigin(text string) bool {
	if text == "*" {
		return true
	}
	parsed, err := url.Parse(text)
	if err != nil || parsed.Scheme == "" || parsed.Hostname() == "" || strings.ContainsAny(parsed.Host, "* ") || !isPortOfURL(parsed.Port()) {
		return false
	}
	return strings.EqualFold(text, parsed.Scheme+"://"+parsed.Host) && !strings.HasSuffix(text, ":")
}

var validPrefix = regexp.MustCompile(`^[A-Za-z0-9][\w-]*(\.[\w-]+)*$`)

// checkPrefix returns an error unless text is a prefix of NATS subjects.
func checkPrefix(text string) error {
	if first, _, _ := strings.Cut(text, "."); len(text) > 100 || !validPrefix.MatchString(text) || first == subjects.Service {
		return fmt.Errorf("must be up to 100 characters: words of A-Z, a-z, 0-9, - and _ with dots between them, and must not begin with kvslots or _")
	}
	return nil
}

// IsLoopback reports whether an address, with or without a port, is localhost or a
// literal loopback address.
func IsLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = strings.Trim(addr, "[]")
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
