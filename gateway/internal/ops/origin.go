package ops

import (
	"net/netip"

	"github.com/kvslots/kvslots/kvslots/wire/clientnet"
)

// origin returns the network of the client with an address and port, as text.
func origin(remote string) string {
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
