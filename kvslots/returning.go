package kvslots

import (
	"context"
	"time"
)

// ReturnTimeout bounds the calls that give up what is held: Return, Release and
// EndSession, of a Store, a client of gateways, a Lease and a limiter. These calls ignore
// the cancellation and the deadline of their context, which has usually ended
// when `defer lease.Return(ctx)` runs: a slot that stays taken harms every other
// caller. A call that gets no answer in that time returns ErrUnavailable.
const ReturnTimeout = 10 * time.Second

// Returning is the context of a call that gives up what is held. It keeps the
// values of ctx, and nothing else.
func Returning(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.WithoutCancel(ctx), ReturnTimeout, ErrUnavailable)
}
