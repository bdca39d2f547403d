package ops

import (
	"context"
	"errors"
	"testing"

	"github.com/kvslots/kvslots/kvslots/wire"
)

func TestLending(t *testing.T) {
	l := NewLending()
	before, endBefore := l.Begin(t.Context())
	if before.Err() != nil || l.Open() != 1 || l.Stopped() {
		t.Fatalf("after Begin: %v, %d open, stopped %v", before.Err(), l.Open(), l.Stopped())
	}
	l.Stop()
	<-before.Done()
	if cause := context.Cause(before); !errors.Is(cause, wire.ErrDraining) {
		t.Errorf("cause %v, want ErrDraining", cause)
	}
	after, endAfter := l.Begin(t.Context())
	if cause := context.Cause(after); !errors.Is(cause, wire.ErrDraining) {
		t.Errorf("a borrow after Stop has cause %v", cause)
	}
	endBefore()
	endAfter()
	if l.Open() != 0 || !l.Stopped() {
		t.Errorf("%d open at the end, stopped %v", l.Open(), l.Stopped())
	}
}

// A borrow that its client cancels keeps the client's cause.
func TestLendingKeepsTheCallersCause(t *testing.T) {
	l := NewLending()
	ctx, cancel := context.WithCancel(t.Context())
	borrow, end := l.Begin(ctx)
	defer end()
	cancel()
	l.Stop()
	if cause := context.Cause(borrow); !errors.Is(cause, context.Canceled) {
		t.Errorf("cause %v", cause)
	}
}

// What ends with the gateway, and is no borrow, is not counted.
func TestUntilStop(t *testing.T) {
	l := NewLending()
	until, end := l.UntilStop(t.Context())
	defer end()
	if until.Err() != nil || l.Open() != 0 {
		t.Errorf("before Stop: %v, %d open", until.Err(), l.Open())
	}
	l.Stop()
	<-until.Done()
	if cause := context.Cause(until); !errors.Is(cause, wire.ErrDraining) || l.Open() != 0 {
		t.Errorf("cause %v, %d open", cause, l.Open())
	}
}
