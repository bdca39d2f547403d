package forrst

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/kvslots/kvslots/kvslots"
)

const (
	// releaseTimeout bounds the release at the end of a call.
	releaseTimeout = 10 * time.Second

	// releaseRetry is the pause after which a failed release is tried again.
	releaseRetry = time.Second
)

// acquireLock acquires the lock of a call, or returns the response that says why it
// could not.
func (s *Server) acquireLock(ctx context.Context, r request, from caller) (*kvslots.OwnedLock, *response) {
	arrived := time.Now()
	ctx, end := s.cfg.Lending.Begin(ctx)
	defer end()
	o, full := r.lock, r.lock.fullKey(r.call.Function)
	if o.block > 0 {
		if err := s.cfg.Lending.Waits.Enter(from.remote); err != nil {
			return nil, failed(r.id, transportError(err))
		}
		defer s.cfg.Lending.Waits.Leave(from.remote)
	}
	lock, err := s.locks.LockOwned(ctx, full, o.owner, o.ttl, o.block)
	if err == nil {
		s.events.Granted(time.Since(arrived))
	}
	if err == nil && o.block > 0 && from.hungUp != nil && from.hungUp() {
		s.finishLock(ctx, lock, true, &lockData{}) // lets the next in line have it
		return nil, failed(r.id, clientGone)
	}
	if err == nil {
		return lock, nil
	}
	if !errors.Is(err, kvslots.ErrNoSlot) {
		return nil, failed(r.id, s.storeError(err))
	}
	s.events.NoSlot(o.block)
	if o.block > 0 {
		return nil, failed(r.id, lockTimeout(o, full, s.cfg.MaxWait))
	}
	refusal := failed(r.id, &Error{
		Code: codeNotAcquired, Message: "Unable to acquire lock", Retryable: true, status: http.StatusLocked,
		Details: heldDetails{Key: o.key, Scope: o.scope, FullKey: full},
	})
	refusal.attach(lockData{Key: o.key})
	return nil, refusal
}

// heldDetails names the lock that was not acquired.
type heldDetails struct {
	Key     string    `json:"key"`
	Scope   string    `json:"scope"`
	FullKey string    `json:"full_key"`
	Waited  *duration `json:"waited,omitempty"`
}

func lockTimeout(o *lockOptions, full string, most time.Duration) *Error {
	waited := o.waitedDuration(most)
	return &Error{
		Code: codeLockTimeout, Message: "Lock acquisition timed out after " + waited.String(), Retryable: true,
		status:  http.StatusRequestTimeout,
		Details: heldDetails{Key: o.key, Scope: o.scope, FullKey: full, Waited: &waited},
	}
}

// finishLock releases the lock of a finished function, if release is true, and records
// whether the function had lost it. The lock counts as expired at the time that the
// function was promised, because another holder may have existed since.
func (s *Server) finishLock(detached context.Context, lock *kvslots.OwnedLock, release bool, data *lockData) {
	data.Expired = !time.Now().Before(lock.ExpiresAt)
	if !release {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(detached), releaseTimeout)
	defer cancel()
	released, err := s.locks.UnlockOwned(ctx, lock)
	switch {
	case err != nil:
		s.log.Warn().Err(err).Msg("a lock could not be released; trying again until its time is over")
		s.releaseLater(lock)
	case released:
		s.events.Returned()
	case !data.Expired:
		data.Released = true
	}
}

// releaseLater repeats a failed release until it succeeds, the lock expires or the
// server is closed.
func (s *Server) releaseLater(lock *kvslots.OwnedLock) {
	if !s.begin(&s.tasks) {
		return
	}
	go func() {
		defer s.tasks.Done()
		ctx, cancel := context.WithDeadline(s.ctx, lock.ExpiresAt)
		defer cancel()
		pause := time.NewTicker(releaseRetry)
		defer pause.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-pause.C:
			}
			if released, err := s.locks.UnlockOwned(ctx, lock); err == nil {
				if released {
					s.events.Returned()
				}
				return
			}
		}
	}()
}
