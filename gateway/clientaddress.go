package gateway

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// trustedPeers are the networks of proxies that say truly who their client is.
type trustedPeers []netip.Prefix

func (t trustedPeers) contain(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return slices.ContainsFunc(t, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// remoteAddr returns the address and port of the client that has sent a request. Behind
// proxies it is the last address in X-Forwarded-For or Forwarded (RFC 7239) that is not
// a proxy's own: the client may have written everything before it. A header that a
// proxy of the other kind passes on from the client is told by its contradiction: then
// the address is the proxy's.
func (t trustedPeers) remoteAddr(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !t.contain(peer.Addr()) {
		return r.RemoteAddr
	}
	client, said := t.lastUntrusted(r.Header.Values("X-Forwarded-For"), strings.TrimSpace)
	other, saidToo := t.lastUntrusted(r.Header.Values("Forwarded"), forwardedFor)
	switch {
	case !said:
		client, said = other, saidToo
	case saidToo && client != other:
		said = false
	}
	if !said {
		return r.RemoteAddr
	}
	return netip.AddrPortFrom(client, 0).String()
}

// lastUntrusted returns the last address of a chain that is not a proxy's. If the chain
// has only proxies, or breaks off at something else than an address, it is the first
// proxy after that. ok is false if there is no address at all.
func (t trustedPeers) lastUntrusted(lines []string, node func(element string) string) (addr netip.Addr, ok bool) {
	elements := strings.Split(strings.Join(lines, ","), ",")
	for _, element := range slices.Backward(elements) {
		parsed, valid := parseNode(node(element))
		if !valid {
			break
		}
		addr, ok = parsed, true
		if !t.contain(addr) {
			break
		}
	}
	return addr, ok
}

// forwardedFor returns the value of for= in an element of Forwarded.
func forwardedFor(element string) string {
	for pair := range strings.SplitSeq(element, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if strings.EqualFold(name, "for") {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}

// parseNode parses an address with or without a port; one of IPv6 may stand in brackets.
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
