package natsapi

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/kvslots/kvslots/gateway/internal/ops"
)

func TestNamesAreForgotten(t *testing.T) {
	now := time.Now()
	r := newRequests(func() time.Time { return now })
	lease := &ops.Call{}

	r.cancel("early")
	now = now.Add(memoryTime)
	ctx, done := r.begin(context.Background(), "early")
	if ctx.Err() != nil {
		t.Error("a cancellation is remembered for longer than it should be")
	}
	if !r.grant("early", lease) {
		t.Error("not granted")
	}
	done()
	now = now.Add(memoryTime)
	if _, out := r.cancel("early"); out {
		t.Error("a lease is taken back long after it was granted")
	}
	if len(r.open) != 0 {
		t.Errorf("%d requests are still open", len(r.open))
	}
}

func TestNamesAreBounded(t *testing.T) {
	var r recent[int]
	now := time.Now()
	for i := range 3 * memorySize {
		r.put(strconv.Itoa(i), i, now)
		r.put("the same", i, now)
	}
	if len(r.values) > memorySize || len(r.order) > memorySize {
		t.Errorf("%d names, %d in order", len(r.values), len(r.order))
	}
	if value, ok := r.take(strconv.Itoa(3*memorySize-1), now); !ok || value != 3*memorySize-1 {
		t.Errorf("the last is %d, %v", value, ok)
	}
	if _, ok := r.take("0", now); ok {
		t.Error("the first is still there")
	}
}

func TestCancelledWhileItIsGranted(t *testing.T) {
	r := newRequests(time.Now)
	lease := &ops.Call{}
	ctx, done := r.begin(context.Background(), "n")
	r.cancel("n")
	if ctx.Err() == nil {
		t.Error("not cancelled")
	}
	done()
	if r.grant("n", lease) {
		t.Error("a cancelled borrow was granted")
	}
	if _, out := r.cancel("n"); out {
		t.Error("a lease that was never granted is to be taken back")
	}
}
