package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
)

// Gateway is a gateway that is measured.
type Gateway struct {
	Sync       string // its sync mode: one of SyncNames
	Transports []Transport

	// Store is the gateway's peer if both are in this process, and nil otherwise. The
	// claims of a hand-over, and the memory and the processor time of waiters, are measured
	// only with a Store.
	Store *kvslots.Store

	// Close stops the gateway; nil means that it is not stopped.
	Close func() error
}

// Remote returns the gateway at an endpoint, which must be ready, with the transports http
// and v1. With calls, which uses a connection to the gateway's NATS, it has the transport
// nats, too; nil means without.
func Remote(ctx context.Context, to Endpoint, calls *client.Client) (*Gateway, error) {
	conn := httpConn{to: to}
	defer conn.close()
	body, err := conn.do(ctx, to.request("GET", "/ready", "", nil))
	if err != nil {
		return nil, fmt.Errorf("bench: the server is not ready: %w", err)
	}
	var ready struct {
		Sync string `json:"sync"`
	}
	if json.Unmarshal(body, &ready) != nil {
		return nil, errors.New("bench: the server is not a kvslots gateway")
	}
	g := &Gateway{Sync: ready.Sync, Transports: []Transport{HTTP(to, Hold), V1(to, Hold)}}
	if calls != nil {
		g.Transports = append([]Transport{NATS(calls)}, g.Transports...)
	}
	return g, nil
}

// claims returns how many claims of slots the peer has sent; 0 without a Store.
func (g *Gateway) claims() uint64 {
	if g.Store == nil {
		return 0
	}
	return g.Store.Metrics().Claims
}
