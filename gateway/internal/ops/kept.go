package ops

import (
	"context"
	"errors"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// keptContext is the context of a call with a request key. It ends when of does, and its cause
// is then kvslots.ErrPlaceKept, since the client may repeat the call, unless the client has
// withdrawn it or the gateway drains. Most calls never end so: a context that was canceled with
// another cause would take ten allocations more.
type keptContext struct{ context.Context }

func (k keptContext) Err() error {
	why := context.Cause(k.Context)
	if why != nil && !errors.Is(why, ErrWithdrawn) && !errors.Is(why, wire.ErrDraining) {
		why = kvslots.ErrPlaceKept
	}
	return why
}

// Value implements context.Context. It returns nil, since context.Cause would otherwise find the
// cause of the context below.
func (keptContext) Value(any) any { return nil }
