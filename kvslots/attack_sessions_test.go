//go:build unix

package kvslots

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

// enqueuers take locks by Enqueue and Wait, at any store.
func (a *attack) enqueuers(r *rand.Rand) {
	for a.pause(a.stop, probePace) {
		began := time.Now()
		id, _, err := a.any(r).CreateSession(a.t.Context(), WithIdle(lockIdle))
		if !a.count("create session", began, 0, err) {
			continue
		}
		for n := r.IntN(20); n > 0; n-- {
			a.enqueue(id, Lock(fmt.Sprint("lock-", r.IntN(2))), r)
		}
		for again := false; ; again = true {
			began := time.Now()
			if err := a.any(r).EndSession(a.t.Context(), id); a.count("end session", began, 0, err) || again && errors.Is(err, ErrSessionGone) {
				break
			} else if !errors.Is(err, ErrUnavailable) {
				a.ledger.Fail("end session at %s: %v", timeOfDay(time.Now()), err)
				break
			}
		}
	}
}

func (a *attack) enqueue(session string, on Resource, r *rand.Rand) {
	ttl := []time.Duration{3 * time.Second, 600 * time.Second}[r.IntN(2)]
	store, began := a.any(r), time.Now()
	g, acquired, err := store.Enqueue(a.t.Context(), session, on, WithTTL(ttl))
	if !a.count("enqueue", began, 0, err) {
		return
	}
	for tries := 0; !acquired; tries++ {
		ctx, cancel := context.WithCancelCause(a.t.Context())
		if r.IntN(3) == 0 && tries < 5 {
			time.AfterFunc(time.Duration(r.IntN(500))*time.Millisecond, func() { cancel(ErrPlaceKept) })
		}
		wait := time.Duration(r.IntN(4000)) * time.Millisecond
		store, began = a.any(r), time.Now()
		g, err = store.Wait(ctx, session, on, wait)
		cancel(nil)
		if acquired = a.count("wait", began, wait, err); errors.Is(err, ErrPlaceKept) {
			continue
		} else if err != nil {
			if errors.Is(err, ErrSessionGone) || errors.Is(err, ErrNotEnqueued) && !a.disturbed(period{began.Add(-20 * time.Second), time.Now()}) {
				a.ledger.Fail("wait of %s at %s by %s: %v", session[:6], timeOfDay(time.Now()), store.name, err)
			}
			return
		}
	}
	now := time.Now()
	lease := &natstest.Told{Fence: g.Fence, Granted: now, Ends: began.Add(g.TTL), By: store.name + " to " + session[:6]}
	a.ledger.Grant(slotOf{lock: on.Key}, lease)
	time.Sleep(time.Duration(r.IntN(40)) * time.Millisecond)
	ends := a.ledger.GiveBack(lease)
	for again := false; ; again = true {
		began := time.Now()
		err := a.any(r).Release(a.t.Context(), session, on, g.Token)
		if a.count("release", began, 0, err) || again && errors.Is(err, ErrNotHeld) {
			return
		}
		if !errors.Is(err, ErrUnavailable) {
			if time.Now().Before(ends) {
				a.ledger.Fail("lock: %s, was lost before its release at %s: %v", lease, timeOfDay(time.Now()), err)
			}
			return
		}
	}
}
