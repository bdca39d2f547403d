package kvslots

import (
	"context"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

type originKey struct{}

// WithOrigin returns a context for calls on behalf of a client that comes from origin, such
// as its address. Register counts for Config.MaxTombstones by it. Without an origin, or with
// the origin "", it is not limited. The bucket holds a hash of it.
func WithOrigin(ctx context.Context, origin string) context.Context {
	return context.WithValue(ctx, originKey{}, origin)
}

// originOf returns the hash of a context's origin, or zero.
func originOf(ctx context.Context) entry.Hash {
	origin, _ := ctx.Value(originKey{}).(string)
	return originHash(origin)
}
