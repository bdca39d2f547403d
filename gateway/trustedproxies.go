package gateway

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// trustedProxies are the networks of proxies whose headers about their clients are true.
type trustedProxies []netip.Prefix

func (t trustedProxies) contain(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return slices.ContainsFunc(t, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// remoteAddr returns the address and port of the client that sent a request. Behind
// proxies it is the last address in X-Forwarded-For or Forwarded (RFC 7239) that is not
// a proxy's own: the client may have written everything before it. A proxy that writes
// one of the headers may pass on the other one from the client. So if the two headers
// disagree, the address is the proxy's.
func (t trustedProxies) remoteAddr(r *http.Request) string {
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !t.contain(remote.Addr()) {
		return r.RemoteAddr
	}
	client, ok := t.lastUntrusted(r.Header.Values("X-Forwarded-For"), strings.TrimSpace)
	other, otherOK := t.lastUntrusted(r.Header.Values("Forwarded"), forwardedFor)
	switch {
	case !ok:
		client, ok = other, otherOK
	case otherOK && client != other:
		ok = false
	}
	if !ok {
		return r.RemoteAddr
	}
	return netip.AddrPortFrom(client, 0).String()
}

// lastUntrusted returns the last address of a chain that is not a trusted proxy's. If
// there is none, because the chain consists of proxies, or because an element after it is
// not an address, lastUntrusted returns the last address of the chain, which the proxy itself
// has written. ok is false if there is no address at the end of the chain.
func (t trustedProxies) lastUntrusted(lines []string, node func(element string) string) (addr netip.Addr, ok bool) {
	rest, more := strings.Join(lines, ","), true
	for more {
		var element string
		rest, element, more = cutLast(rest, ',')
		parsed, valid := parseNode(node(element))
		if !valid {
			break
		}
		if !t.contain(parsed) {
			return parsed, true
		}
		if !ok {
			addr, ok = parsed, true
		}
	}
	return addr, ok
}

func forwardedFor(element string) string {
	more := true
	for more {
		var pair string
		element, pair, more = cutLast(element, ';')
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if strings.EqualFold(name, "for") {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}

// cutLast cuts text around the last separator that is not in a quoted string: a proxy
// quotes what the client wrote, such as its Host. Reading from the end, cutLast does not
// take a quote that the client opened, and did not close, for one of the proxy's.
func cutLast(text string, separator byte) (before, last string, found bool) {
	quoted := false
	for i := len(text) - 1; i >= 0; i-- {
		switch {
		case text[i] == '"' && !escaped(text[:i]):
			quoted = !quoted
		case text[i] == separator && !quoted:
			return text[:i], text[i+1:], true
		}
	}
	return "", text, false
}

// escaped reports whether the character after text is escaped by a backslash.
func escaped(text string) bool {
	return (len(text)-len(strings.TrimRight(text, `\`)))%2 == 1
}

// parseNode parses an address with or without a port; an IPv6 address may have brackets.
func parseNode(text string) (netip.Addr, bool) {
	if withPort, err := netip.ParseAddrPort(text); err == nil {
		return withPort.Addr().Unmap().WithZone(""), true
	}
	if inner, ok := strings.CutPrefix(text, "["); ok {
		text = strings.TrimSuffix(inner, "]")
	}
	addr, err := netip.ParseAddr(text)
	return addr.Unmap().WithZone(""), err == nil
}
