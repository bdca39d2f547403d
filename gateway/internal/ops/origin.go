package ops

import (
	"errors"
	"net/netip"

	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/kvslots/wire/clientnet"
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

// fromOrigin calls do with an origin of the client. If that has reached its cap, as do says
// with the error full, it tries the next one.
func (c *Call) fromOrigin(full error, do func(origin string) error) error {
	if c.Origins == nil {
		return do(Origin(c.Remote))
	}
	err := wire.ErrBusy
	for origin := range c.Origins {
		if err = do(origin); !errors.Is(err, full) {
			break
		}
	}
	return err
}
