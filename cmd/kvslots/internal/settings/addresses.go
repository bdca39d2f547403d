package settings

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

func address(target *string) flagValue[string] {
	return checked(target, "host:port", func(text string) error {
		if _, port, err := net.SplitHostPort(text); err != nil || !isPort(port) {
			return fmt.Errorf(`must be host:port with a port between 0 and 65535, such as "127.0.0.1:8080" or ":0"`)
		}
		return nil
	})
}

func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

// isPortOfURL reports whether text is a port to connect to, or absent from the URL.
func isPortOfURL(text string) bool {
	return text == "" || isPort(text) && strings.Trim(text, "0") != ""
}

// loopback is an address that other machines cannot reach.
func loopback(target *string) flagValue[string] {
	return checked(target, "loopback:port", func(text string) error {
		if _, port, err := net.SplitHostPort(text); err != nil || !isPort(port) || !IsLoopback(text) {
			return fmt.Errorf(`must be host:port of a loopback address, with a port between 0 and 65535, such as "127.0.0.1:6060" or "[::1]:0"`)
		}
		return nil
	})
}

// port is a flag that takes a port of 127.0.0.1 and sets an address. It shows no default,
// which the flag of the address shows.
func port(address *string) flagValue[string] {
	return flagValue[string]{address, "port", func(text string) (string, error) {
		value, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return "", fmt.Errorf("must be a port between 0 and 65535")
		}
		return net.JoinHostPort("127.0.0.1", strconv.FormatUint(value, 10)), nil
	}, func(string) string { return "" }}
}

// networks is a flag that takes IP addresses and CIDRs. Its error contains the invalid
// entry, which is no secret.
func networks(target *string) flagValue[string] {
	return list(target, "networks", func(entry string) error {
		_, err := parseNetwork(entry)
		return err
	})
}

// parseNetwork parses a CIDR, or an address as the network of it alone.
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

// hostNames is a flag that takes names of hosts without ports. Its error contains the
// invalid name, which is no secret.
func hostNames(target *string) flagValue[string] {
	return list(target, "names", func(entry string) error {
		if !validHost.MatchString(entry) {
			return fmt.Errorf(`%q must be the name of a host without a port, such as "slots.example.com"`, entry)
		}
		return nil
	})
}

var validHost = regexp.MustCompile(`^[A-Za-z0-9_](?:[\w.-]{0,252}[A-Za-z0-9_])?$`)

// origins is a flag that takes origins of web pages. Its error contains the invalid
// origin, which is no secret.
func origins(target *string) flagValue[string] {
	return list(target, "origins", func(entry string) error {
		if !isOrigin(entry) {
			return fmt.Errorf(`%q must be an origin such as "https://example.com" or "http://localhost:3000", or *`, entry)
		}
		return nil
	})
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
