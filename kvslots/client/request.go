package client

import (
	"context"
	"time"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// transport sends requests to gateways.
type transport interface {
	// ask sends a request and passes the answer to read. If it returns an error, it has
	// informed the gateways, as far as the transport can, so that they take back what
	// they granted. Its errors are a *wire.Refusal, an *Unanswered, ErrNotUnderstood, the
	// cause of ctx, and those of read.
	ask(ctx context.Context, r request, read func(answer) error) error

	close()
}

// answer is a successful answer of a gateway.
type answer struct {
	body   []byte
	header interface{ Get(name string) string }
}

// request is a request to a gateway.
type request struct {
	wire.Route
	body wire.Request  // with the ids and the key, which HTTP has in the path
	wait time.Duration // how long the gateway may wait before it answers

	// undo returns the request that gives back what was granted. It is called after the
	// answer was read. It is nil if the request grants nothing.
	undo func() request
}
