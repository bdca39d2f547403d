package client

import (
	"context"
	"time"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// transport sends requests to gateways.
type transport interface {
	// ask sends a request and passes the answer to read. When it returns an error,
	// nothing that was granted stays held, as far as the transport can inform the
	// gateways. Its errors are a *wire.Refusal, an *Unanswered, ErrNotUnderstood, the
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
