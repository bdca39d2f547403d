package forrst

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	// releaseTimeout bounds the release at the end of a call.
	releaseTimeout = 10 * time.Second

	// releaseRetry is the pause after which a failed release is tried again.
	releaseRetry = time.Second
)

// acquireLock acquires the lock of a call, or returns the response that says why it
// could not.
func (s *Server) acquireLock(ctx context.Context, r request, from *ops.Call) (*kvslots.OwnedLock, *response) {
	o, full := r.lock, r.lock.fullKey(r.call.Function)
	call := ops.Call{
		Operation: ops.LockOwned, Request: from.Request, Arrived: time.Now(),
		Params: wire.Params{Key: full, Label: o.label, TTL: o.ttl, Wait: o.block}, Owner: o.owner,
	}
	if o.repeatable(from) {
		call.RequestKey, call.Owner = from.RequestKey, o.ownerOf(full, from.RequestKey)
		o.owner = call.Owner
	}
	err := s.do(ctx, &call)
	switch {
	case err == nil && o.block > 0 && from.HungUp():
		s.finishLock(ctx, call.Lock, true, &lockData{}) // lets the next in line have it
		return nil, failed(r.id, clientGone)
	case err == nil:
		return call.Lock, nil
	case !errors.Is(err, kvslots.ErrNoSlot):
		return nil, failed(r.id, s.storeError(err))
	case o.block > 0:
		return nil, failed(r.id, lockTimeout(o, full, s.ops.Lending.Clamp(o.block)))
	}
	refusal := failed(r.id, &Error{
		Code: codeNotAcquired, Message: "Unable to acquire lock", Retryable: true, status: http.StatusLocked,
		Details: heldDetails{Key: o.key, Scope: o.scope, FullKey: full},
	})
	refusal.attach(lockData{Key: o.key})
	return nil, refusal
}

// repeatable reports whether a repeat of the call, by its request key, gets the same lock. A
// lock that is released with the call needs no key, since nothing is held when the answer is
// lost.
func (o *lockOptions) repeatable(call *ops.Call) bool { return !o.autoRelease && call.RequestKey != "" }

// ownerOf returns the owner of a repeatable call's lock. A call that names none has the same one
// when it is repeated.
func (o *lockOptions) ownerOf(fullKey, requestKey string) string {
	if o.named {
		return o.owner
	}
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte(fullKey+"\x00"+requestKey)).String()
}

// heldDetails names the lock that was not acquired.
type heldDetails struct {
	Key     string    `json:"key"`
	Scope   string    `json:"scope"`
	FullKey string    `json:"full_key"`
	Waited  *duration `json:"waited,omitempty"`
}

// lockTimeout returns the error of a call that has waited for the lock: for as long as it
// asked, but no longer than most.
func lockTimeout(o *lockOptions, full string, most time.Duration) *Error {
	waited := o.blockText
	if o.block > most {
		waited = duration{int64(most / time.Second), "second"}
	}
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
	released, err := s.unlock(ctx, lock)
	if err != nil {
		s.log.Warn("a lock could not be released; trying again until its time is over", "error", err)
		s.releaseLater(lock)
		return
	}
	data.Released = !released && !data.Expired
}

// unlock ends one acquisition. It returns false if that has ended already.
func (s *Server) unlock(ctx context.Context, lock *kvslots.OwnedLock) (released bool, err error) {
	call := ops.Call{Operation: ops.UnlockOwned, Lock: lock}
	err = s.do(ctx, &call)
	return call.Answer == wire.Returned{Returned: true}, err
}

// releaseLater repeats a failed release until it succeeds, the lock expires or the
// server is closed.
func (s *Server) releaseLater(lock *kvslots.OwnedLock) {
	if !s.begin(&s.tasks) {
		return
	}
	go func() {
		defer s.tasks.Done()
		defer ops.Recover(s.log)
		ctx, cancel := context.WithDeadline(s.ctx, lock.ExpiresAt)
		defer cancel()
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(releaseRetry):
			}
			if _, err := s.unlock(ctx, lock); err == nil {
				return
			}
		}
	}()
}
