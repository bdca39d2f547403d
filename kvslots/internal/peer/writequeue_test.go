package peer_test

import (
	"testing"
	"time"
)

// Very many borrowers came at once to a server that was slow. The peer sent all of their
// tickets at once, and again each 500 ms while the server was still at the first copies: so
// it had ever more to answer, and waiters were refused whose tickets had no answer in 5 s.
func TestCrowdAtSlowServer(t *testing.T) {
	const waiters, perTenth = 10_000, 100
	h := newHarness(t)
	pool, other := h.newPool(0), h.newPool(1)
	h.auto = false
	before := h.p.Counters()
	for range waiters {
		h.begin(h.borrow(pool, time.Minute))
	}
	late, answered := h.begin(h.borrow(other, 0)), 0
	for waiting := 0; waiting < waiters; {
		now := h.sent[:min(perTenth, len(h.sent))]
		h.sent = h.sent[len(now):]
		for _, w := range now {
			h.publish(&w)
		}
		h.settle()
		h.pass(100 * time.Millisecond)
		_, measures := h.p.Metrics(h.now)
		waiting = measures.Waiting
		if _, ok := h.answers[late]; ok {
			h.granted(late)
			t.Logf("the borrow of another pool is granted %d writes later", answered)
			if answered > waiters/10 {
				t.Error("it waited for too many tickets of others")
			}
		}
		if answered += len(now); answered > 2*waiters {
			t.Fatalf("%d writes were answered, and %d wait", answered, waiting)
		}
		for id, a := range h.answers {
			t.Fatalf("call %d is answered %v", id, a.Err)
		}
	}
	after := h.p.Counters()
	if n := after.Resent - before.Resent; n > 0 {
		t.Errorf("%d messages were sent again, although none was lost", n)
	}
	t.Logf("%d messages for %d waiters", after.Writes-before.Writes, waiters)
}
