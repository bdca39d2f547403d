package peer_test

import (
	"errors"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// A call that follows something is answered when that has ended, with the reason, and not before.
func TestFollow(t *testing.T) {
	h := newHarness(t)
	pool, deleted := h.newPool(2), h.newPool(1)
	session, other := h.hash(), h.hash()
	for _, s := range []entry.Hash{session, other} {
		h.must(peer.CreateSession{Session: s, Idle: time.Hour})
	}
	lend := func(pool entry.Hash) peer.Follow {
		b := h.borrow(pool, 0)
		h.must(b)
		return peer.Follow{Held: peer.Held{Pool: pool, Lease: b.Lease}}
	}
	lock := func() peer.Follow {
		on := peer.Resource{Pool: h.hash(), Name: "n", Lock: true, Limit: 1}
		a := peer.Acquire{Resource: on, Session: session, Lease: h.hash(), TTL: time.Hour}
		h.must(a)
		return peer.Follow{Held: peer.Held{Pool: on.Pool, Lease: a.Lease, Session: session}}
	}
	kept, returned, lost, holds, released := lend(pool), lend(pool), lend(deleted), lock(), lock()
	follows := map[string]struct {
		peer.Follow
		end  peer.Request // nil: it does not end
		want error
	}{
		"lease":             {kept, nil, nil},
		"returned lease":    {returned, peer.Return{Held: peer.Held{Pool: pool, Lease: returned.Lease}}, peer.ErrNotHeld},
		"lease of a pool":   {lost, peer.Delete{Pool: deleted}, peer.ErrNoPool},
		"session":           {peer.Follow{Held: peer.Held{Session: other}}, nil, nil},
		"ended session":     {peer.Follow{Held: peer.Held{Session: session}}, peer.EndSession{Session: session}, peer.ErrSessionGone},
		"lock of a session": {holds, nil, peer.ErrSessionGone},
		"unknown session":   {peer.Follow{Held: peer.Held{Session: h.hash()}}, nil, peer.ErrSessionGone},
		"unknown pool":      {peer.Follow{Held: peer.Held{Pool: h.hash(), Lease: h.hash()}}, nil, peer.ErrNoPool},
	}
	calls := map[string]uint64{}
	for name, f := range follows {
		calls[name] = h.begin(f.Follow)
	}
	ends := h.begin(released)
	h.must(peer.Return{Held: peer.Held{Pool: released.Pool, Lease: released.Lease, Session: session, Named: true, Lock: true}})
	if a := h.granted(ends); !errors.Is(a.Ended, peer.ErrNotHeld) {
		t.Errorf("released lock: %v", a.Ended)
	}
	for _, f := range follows {
		if f.end != nil {
			h.must(f.end)
		}
	}
	for name, f := range follows {
		if a, answered := h.answers[calls[name]]; answered != (f.want != nil) || a.Err != nil || !errors.Is(a.Ended, f.want) {
			t.Errorf("%s: answered %t, %v, %v", name, answered, a.Err, a.Ended)
		}
	}
	gone := errors.New("the caller has gone")
	h.p.GiveUp(calls["lease"], gone, h.now)
	h.settle()
	if a := h.answers[calls["lease"]]; a.Err != gone || a.Ended != nil {
		t.Errorf("given up: %+v", a)
	}
}
