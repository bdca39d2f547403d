package kvslots

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kvslots/kvslots/kvslots/clock"
)

// tenure is the time for which a lease, a lock or a semaphore's slot is held, as its holder
// knows it.
type tenure struct {
	mu       sync.Mutex
	ttl      time.Duration
	deadline time.Duration   // by package clock
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

// Left returns how long it still lasts unless it is renewed or given back before, less than 0 after its
// end. On Linux it counts the time while the machine is suspended.
func (t *tenure) Left() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.left()
}

func (t *tenure) left() time.Duration { return t.deadline - clock.Now() }

// ExpiresAt returns the time, by this machine's clocks, after Left.
func (t *tenure) ExpiresAt() time.Time {
	now := time.Now()
	return now.Add(t.Left())
}

// Trouble returns the error of the last renewal, and nil after one that has succeeded.
func (t *tenure) Trouble() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.trouble
}

// Err returns nil while it is held, as far as its holder knows, and then why it is not:
// ErrNotHeld if it was given back, ended by another caller, or not renewed; ErrNoPool if its pool
// was deleted; ErrSessionGone if its session has ended; ErrUnavailable if nothing has answered its renewals.
func (t *tenure) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.why == nil && t.left() <= 0 {
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
	t.timer = time.AfterFunc(t.left(), t.expire)
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
	return t.left() - min(t.ttl/10, time.Second)
}

func (t *tenure) extend(ttl, deadline time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ttl, t.deadline, t.trouble = ttl, deadline, nil
	if t.timer != nil && t.why == nil {
		t.timer.Reset(t.left())
	}
}

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
	if t.why == nil && t.left() <= 0 { // otherwise a renewal has set the timer again
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

// askEvery is how often a holder asks whether it still holds what it has not renewed meanwhile, and askTimeout how long
// the answer may take: so one that reaches a server knows of the end within 5 s.
const (
	askEvery   = 4 * time.Second
	askTimeout = 2500 * time.Millisecond
)

// ask ends it when held, a read, returns that it has ended. Without an answer it asks again. notice must have been called.
func (t *tenure) ask(held func(context.Context) error) {
	for pause := askEvery; clock.Sleep(t.done, pause); {
		if pause = t.untilAsked(); pause > 0 {
			continue
		}
		attempt, cancel := context.WithTimeoutCause(t.done, askTimeout, errNoAnswer)
		err := held(attempt)
		cancel()
		switch {
		case isLost(err):
			t.end(err)
			return
		case errors.Is(err, ErrClosed):
			return
		case err == nil:
			pause = askEvery
		default:
			pause = max(time.Second, retryAfter(err))
		}
	}
}

// untilAsked returns the time until it is askEvery since the last renewal.
func (t *tenure) untilAsked() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return askEvery - (t.ttl - t.left())
}

// renewAfter returns the age at which it is renewed: so early that it survives most of its ttl without an
// answer.
func renewAfter(ttl time.Duration) time.Duration { return max(ttl/6, min(ttl/3, time.Second)) }

// keep renews it in the background of the caller until ctx or the tenure ends. notice must have been
// called.
func (t *tenure) keep(ctx context.Context, renew func(context.Context) error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.done, cancel)()
	ttl := t.TTL()
	for pause := renewAfter(ttl) - (ttl - t.Left()); clock.Sleep(ctx, pause); {
		attempt, cancel := context.WithTimeoutCause(ctx, max(ttl/4, time.Second), errNoAnswer)
		err := renew(attempt)
		cancel()
		switch {
		case err == nil:
			pause = renewAfter(t.TTL())
		case isLost(err), errors.Is(err, ErrClosed):
			return
		default:
			pause = max(min(ttl/10, time.Second), min(retryAfter(err), t.Left()/2))
		}
	}
}

// retryAfter returns the pause that a server has asked for in an error, or 0.
func retryAfter(err error) time.Duration {
	if refused, ok := errors.AsType[interface {
		error
		Pause() time.Duration
	}](err); ok {
		return refused.Pause()
	}
	return 0
}
