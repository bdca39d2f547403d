package peer_test

import (
	"errors"
	"testing"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// A peer whose view is late says that there are too many pools only if there are: another
// peer may have registered the same pool, or deleted another one.
func TestRegisterAtCapInLateView(t *testing.T) {
	h := newHarnessOf(t, peer.Config{MaxPools: 1})
	first, second, third := h.newPool(1), h.hash(), h.hash()

	deleted := h.deleteUnseen(first)
	m := entry.NewMessage(entry.Key{Kind: entry.Config, Pool: second}, entry.ConfigValue{Count: 1, Generation: 7}, 0, 0)
	registered := h.store(&m)
	call := h.begin(peer.Register{Pool: second, Count: 1})
	h.wantNoAnswer(t, call)
	h.apply(deleted)
	h.apply(registered)
	h.settle()
	h.granted(call)
	if a := h.must(peer.Register{Pool: second, Count: 2}); a.State.Count != 2 {
		t.Errorf("the count of a registered pool is %d after its change", a.State.Count)
	}
	if a, answered := h.answers[h.begin(peer.Register{Pool: third, Count: 1})]; !answered || !errors.Is(a.Err, peer.ErrMaxPools) {
		t.Errorf("beyond the cap: answered %t, %v", answered, a.Err)
	}

	deleted = h.deleteUnseen(second)
	call = h.begin(peer.Register{Pool: third, Count: 1})
	h.wantNoAnswer(t, call)
	h.apply(deleted)
	h.settle()
	h.granted(call)
	h.wantPools(t, 1)
}

// deleteUnseen stores that another peer has deleted a pool, and returns the entry, which
// the peer has not seen yet.
func (h *harness) deleteUnseen(pool entry.Hash) entry.Entry {
	key := entry.Key{Kind: entry.Config, Pool: pool}
	value := h.configs[key]
	value.Deleted = true
	m := entry.NewMessage(key, value, h.stands[key], 0)
	return h.store(&m)
}

func (h *harness) wantNoAnswer(t *testing.T, call uint64) {
	t.Helper()
	if a, answered := h.answers[call]; answered {
		t.Fatalf("answered %+v, %v in a late view", a.State, a.Err)
	}
}
