package natsembed

import (
	"testing"
	"time"
)

// An address rests longer after each flood, and a flood is forgotten in time.
func TestFloodsRest(t *testing.T) {
	var f floods
	address, other := addressOf("192.0.2.1"), addressOf("192.0.2.2")
	now := time.Now()
	wantLeft := func(want time.Duration) {
		t.Helper()
		if left := f.left(address, now); left != want {
			t.Errorf("the address rests for %v more, want %v", left, want)
		}
	}
	next := func(after time.Duration) {
		now = now.Add(after)
		f.note(address, now)
	}
	if f.left(address, now) > 0 {
		t.Error("an address rests without a flood")
	}
	next(0)
	wantLeft(floodRest)
	next(floodRest / 2)
	wantLeft(floodRest) // the same flood
	for _, want := range []time.Duration{2, 4, 8, 16, 16} {
		next(f.left(address, now) + time.Second)
		wantLeft(want * floodRest)
	}
	if f.left(other, now) > 0 {
		t.Error("another address rests")
	}
	next(maxFloodRest + floodMemory + 1)
	wantLeft(floodRest)
	if len(f.rests) != 1 {
		t.Errorf("%d addresses are kept", len(f.rests))
	}
}
