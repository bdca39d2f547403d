package natsembed

import (
	"context"
	"sync/atomic"
)

// pacer makes some clients act rarely: once for each many acts of the other clients.
type pacer struct {
	acts atomic.Int64
	rare chan struct{}
}

// each is the number of other acts for each rare act.
const each = 10

func newPacer() *pacer { return &pacer{rare: make(chan struct{}, 1)} }

func (p *pacer) done() {
	if p.acts.Add(1)%each != 0 {
		return
	}
	select {
	case p.rare <- struct{}{}:
	default:
	}
}

// turn waits until a rare act is due; it returns false when ctx ends first.
func (p *pacer) turn(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-p.rare:
		return true
	}
}
