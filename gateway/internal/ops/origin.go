package ops

import (
	"net/netip"

	"github.com/kvslots/kvslots/kvslots/clientnet"
)

// Origin returns the origin of the client with an address and port: its network, as text.
func Origin(remote string) string {
	address, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	client := clientnet.Of(address.Addr())
	if client.Addr().Is4() {
		return client.Addr().String()
	}
	return client.String()
}
