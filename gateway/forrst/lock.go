package forrst

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/kvslots/kvslots/kvslots"
)

const (
	// releaseTimeout bounds a release that is part of a call.
	releaseTimeout = 10 * time.Second

	// releaseRetry is the pause before one that failed is tried again.
	releaseRetry = time.Second
)

// acquire takes the lock that a call asks for, or says why not.
func (s *Server) acquire(ctx context.Context, r request, by caller) (*kvslots.OwnedLock, *response) {
	ctx, end := s.cfg.Lending.Begin(ctx)
	defer end()
	o, full := r.lock, r.lock.fullKey(r.call.Function)
	if o.block > 0 {
		if err := s.cfg.Lending.Waits.Enter(by.remote); err != nil {
			return nil, failed(r.id, refused(err))
		}
		defer s.cfg.Lending.Waits.Leave(by.remote)
	}
	lock, err := s.locks.LockOwned(ctx, full, o.owner, o.ttl, o.block)
	if err == nil && o.block > 0 && by.gone != nil && by.gone() {
		s.settle(ctx, lock, true, &lockData{}) // to the next in line
		return nil, failed(r.id, clientGone)
	}
	if err == nil {
		return lock, nil
	}
	if !errors.Is(err, kvslots.ErrNoSlot) {
		return nil, failed(r.id, s.storeError(err))
	}
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

// heldDetails say which lock was not to be had.
type heldDetails struct {
	Key     string `json:"key"`
	Scope   string `json:"scope"`
	FullKey string `json:"full_key"`
	Waited  *span  `json:"waited,omitempty"`
}

func lockTimeout(o *lockOptions, full string, most time.Duration) *Error {
	waited := o.waited(most)
	return &Error{
		Code: codeLockTimeout, Message: "Lock acquisition timed out after " + waited.String(), Retryable: true,
		status:  http.StatusRequestTimeout,
		Details: heldDetails{Key: o.key, Scope: o.scope, FullKey: full, Waited: &waited},
	}
}

// settle releases the lock of a function that has ended, if that is wanted, and
// notes whether the function has lost it before. The promise given to the function
// counts: past its end another holder was possible.
func (s *Server) settle(lasting context.Context, lock *kvslots.OwnedLock, release bool, data *lockData) {
	data.Expired = !time.Now().Before(lock.ExpiresAt)
	if !release {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(lasting), releaseTimeout)
	defer cancel()
	released, err := s.locks.UnlockOwned(ctx, lock)
	switch {
	case err != nil:
		s.log.Warn().Err(err).Msg("a lock could not be released; trying again until its time is over")
		s.releaseLater(lock)
	case !released && !data.Expired:
		data.Released = true
	}
}

// releaseLater goes on trying until the lock is released, its time is over, or the
// server is closed.
func (s *Server) releaseLater(lock *kvslots.OwnedLock) {
	if !s.begin() {
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
			if _, err := s.locks.UnlockOwned(ctx, lock); err == nil {
				return
			}
		}
	}()
}
