package kvslots

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// tenure is the time for which a lease, a lock or a semaphore's slot is held, as its holder
// knows it.
type tenure struct {
	mu       sync.Mutex
	ttl      time.Duration
	deadline time.Time
	why      error           // why it has ended; nil before
	trouble  error           // of the last renewal; nil after a success
	done     context.Context // ends with the tenure; nil before the first call of notice
	setDone  context.CancelFunc
	timer    *time.Timer // ends the tenure at the deadline; nil like done
}

var errReturned = fmt.Errorf("%w: it was given back", ErrNotHeld)

// TTL returns the time for which it was granted or last renewed, counted from
// the return of that call. It may be less than the ttl of the call: see Config.MaxTTL.
func (t *tenure) TTL() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ttl
}

// ExpiresAt returns the time, by this machine's clocks, at which it ends unless
// it is renewed or given back before. The time has a monotonic reading, so time.Until is
// not affected by steps of the wall clock.
func (t *tenure) ExpiresAt() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.deadline
}

// Err returns nil while it is held, as far as its holder knows, and then why it is not:
// ErrNotHeld if it was given back, ended by another caller, or not renewed; ErrNoPool if its pool
// was deleted; ErrSessionGone if its session has ended; ErrUnavailable if nothing has answered its renewals.
func (t *tenure) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.why == nil && time.Until(t.deadline) <= 0 {
		return t.overdue()
	}
	return t.why
}

// overdue returns why it ends at its deadline.
func (t *tenure) overdue() error {
	if t.trouble != nil {
		return t.trouble
	}
	return ErrExpired
}

// notice sets done unless it is set, and reports whether it did so for a live tenure.
func (t *tenure) notice() (first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done != nil {
		return false
	}
	t.done, t.setDone = context.WithCancel(context.Background())
	if t.why != nil {
		t.setDone()
		return false
	}
	t.timer = time.AfterFunc(time.Until(t.deadline), t.expire)
	return true
}

// within returns a context that ends before the tenure does. notice must have been called.
func (t *tenure) within(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	stop := context.AfterFunc(t.done, func() { cancel(t.Err()) })
	var mu sync.Mutex // timer is set before it fires
	var timer *time.Timer
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(t.untilNotice(), func() {
		mu.Lock()
		defer mu.Unlock()
		if left := t.untilNotice(); left > 0 {
			timer.Reset(left)
			return
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		cancel(t.overdue())
	})
	return ctx, func() {
		cancel(context.Canceled)
		stop()
		timer.Stop()
	}
}

// untilNotice returns the time until the holder has to stop: a tenth of the ttl before the end,
// at most a second.
func (t *tenure) untilNotice() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Until(t.deadline) - min(t.ttl/10, time.Second)
}

// extend records a renewal.
func (t *tenure) extend(ttl time.Duration, deadline time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ttl, t.deadline, t.trouble = ttl, deadline, nil
	if t.timer != nil && t.why == nil {
		t.timer.Reset(time.Until(t.deadline))
	}
}

// failed records the error of a renewal.
func (t *tenure) failed(err error) {
	if isLost(err) {
		t.end(err)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trouble = err
}

// isLost reports whether the error of a renewal means that nothing is held any more.
func isLost(err error) bool {
	return errors.Is(err, ErrNotHeld) || errors.Is(err, ErrNoPool) || errors.Is(err, ErrSessionGone)
}

// expire ends it at its deadline.
func (t *tenure) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.why == nil && time.Until(t.deadline) <= 0 { // otherwise a renewal has set the timer again
		t.endFor(t.overdue())
	}
}

// end records that it has ended, and why. Only the first reason counts.
func (t *tenure) end(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.why == nil {
		t.endFor(why)
	}
}

func (t *tenure) endFor(why error) {
	t.why = why
	if t.timer != nil {
		t.timer.Stop()
		t.setDone()
	}
}

// follow ends it when ended, a method of a Follower, reports that it has ended. notice must have
// been called.
func (t *tenure) follow(ended func(context.Context) error) {
	if err := ended(t.done); isLost(err) {
		t.end(err)
	}
}

// keep renews it in the background of the caller, every third of its TTL, until ctx or the
// tenure ends. notice must have been called.
func (t *tenure) keep(ctx context.Context, renew func(context.Context) error) {
	ttl := t.TTL()
	pause := ttl / 3
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.done.Done():
			return
		case <-time.After(pause):
		}
		attempt, cancel := context.WithTimeoutCause(ctx, max(ttl/4, time.Second), errNoAnswer)
		err := renew(attempt)
		cancel()
		switch {
		case err == nil:
			pause = t.TTL() / 3
		case isLost(err), errors.Is(err, ErrClosed):
			return
		default:
			pause = min(ttl/10, time.Second)
		}
	}
}
