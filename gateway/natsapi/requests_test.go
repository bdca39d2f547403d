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
	ctx, w := r.begin(context.Background(), "early")
	if ctx.Err() == nil || w.grant(lease) {
		t.Error("the cancellation of a request that had not come is forgotten")
	}
	w.end()
	now = now.Add(2 * earlyAge)
	ctx, w = r.begin(context.Background(), "early")
	if ctx.Err() != nil || !w.grant(lease) {
		t.Error("a cancellation is remembered for longer than it should be")
	}
	w.end()
	now = now.Add(2 * grantedAge)
	if r.cancel("early") != nil {
		t.Error("a lease is taken back long after it was granted")
	}
	if len(r.named) != 0 {
		t.Errorf("%d requests are still open", len(r.named))
	}
}

func TestGrantsAreBounded(t *testing.T) {
	r := newRecent[*ops.Call](grantedAge, maxGranted)
	now := time.Now()
	first, last := &ops.Call{}, &ops.Call{}
	r.put("first", first, now)
	for i := range 3 * maxGranted {
		r.put(strconv.Itoa(i), first, now)
		r.put("the same", first, now)
	}
	r.put("last", last, now)
	if n := len(r.young) + len(r.old); n > 2*maxGranted {
		t.Errorf("%d names are remembered", n)
	}
	if grant, _ := r.get("last", now); grant != last {
		t.Errorf("the last is %v", grant)
	}
	if _, known := r.get("first", now); known {
		t.Error("the first is still there")
	}
}

func TestCancelledWhileItIsGranted(t *testing.T) {
	r := newRequests(time.Now)
	ctx, w := r.begin(context.Background(), "n")
	r.cancel("n")
	if ctx.Err() == nil {
		t.Error("not cancelled")
	}
	if w.grant(&ops.Call{}) {
		t.Error("a cancelled borrow was granted")
	}
	w.end()
	if r.cancel("n") != nil {
		t.Error("a lease that was never granted is to be taken back")
	}
}

// A flood of cancellations takes nothing from other clients' ones.
func TestCancelsDoNotEvictOthers(t *testing.T) {
	r := newRequests(time.Now)
	_, open := r.begin(context.Background(), "open")
	defer open.end()
	r.cancel("open")
	lease := &ops.Call{}
	_, granted := r.begin(context.Background(), "granted")
	granted.grant(lease)
	granted.end()
	for i := range 1 << 16 {
		r.cancel("flood" + strconv.Itoa(i))
	}
	if open.grant(&ops.Call{}) {
		t.Error("the cancellation of an open request is forgotten")
	}
	if r.cancel("granted") != lease {
		t.Error("a grant is forgotten")
	}
	if len(r.named) != 1 {
		t.Errorf("%d names are remembered", len(r.named))
	}
}
