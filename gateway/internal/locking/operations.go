package locking

import (
	"context"
	"errors"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/kvslots/wire/subjects"
)

// Kinds are the kinds of resources, by the words that doors have for one.
var Kinds = map[string]kvslots.Kind{
	subjects.Lock:      kvslots.KindLock,
	subjects.Semaphore: kvslots.KindSemaphore,
}

// Operation is what can be done with a lock or a semaphore (gateway/README.md,
// "The dflockd API: /v1").
type Operation struct {
	Name  string
	Lends bool // refused while the gateway drains; may wait, and may grant

	leaves bool // when it is given up, the session is to leave the line

	read func(call *Call, body *wire.Fields) error
	do   func(ctx context.Context, d *Desk, call Call) (Outcome, error)
}

// Operations are all that there are.
var Operations = []Operation{
	{Name: subjects.Acquire, Lends: true, read: readAcquire, do: acquire},
	{Name: subjects.Enqueue, Lends: true, read: readEnqueue, do: enqueue},
	{Name: subjects.Wait, Lends: true, leaves: true, read: readWait, do: wait},
	{Name: subjects.Release, read: readRelease, do: release},
	{Name: subjects.Renew, read: readRenew, do: renew},
}

// Call is a request for an operation.
type Call struct {
	Operation Operation
	Session   string
	Resource  kvslots.Resource

	token     string
	ttl, wait time.Duration
}

// NewCall reads what is in the body beside the session and the key, which the
// door has found already.
func (d *Desk) NewCall(op Operation, kind kvslots.Kind, session, key string, body wire.Fields) (Call, error) {
	call := Call{Operation: op, Session: session, Resource: kvslots.Resource{Kind: kind, Key: key, Limit: 1}}
	if err := op.read(&call, &body); err != nil {
		return Call{}, err
	}
	if call.ttl == 0 {
		call.ttl = d.DefaultLeaseTTL
	}
	return call, nil
}

// Outcome is what a call came to.
type Outcome struct {
	Answer any            // nil when there is nothing to say
	Grant  *kvslots.Grant // what goes back when nobody hears the answer; nil for nothing
	Queued bool           // the grant was stood in line for
}

func granted(status string, grant kvslots.Grant) Outcome {
	return Outcome{Answer: wire.NewGrant(status, grant), Grant: &grant, Queued: grant.Queued}
}

func readAcquire(call *Call, body *wire.Fields) error {
	claim, err := body.Acquire(call.Resource.Kind)
	call.ttl, call.wait, call.Resource.Limit = claim.TTL, claim.Wait, claim.Limit
	return err
}

func acquire(ctx context.Context, d *Desk, call Call) (Outcome, error) {
	grant, err := d.Sessions.Acquire(ctx, call.Session, call.Resource, call.ttl, call.wait)
	return waited(grant, err)
}

// waited makes an answer of the lack of a slot: running out of time is no error.
func waited(grant kvslots.Grant, err error) (Outcome, error) {
	switch {
	case errors.Is(err, kvslots.ErrNoSlot):
		return Outcome{Answer: wire.Standing{Status: wire.GrantTimeout}}, nil
	case err != nil:
		return Outcome{}, err
	}
	return granted(wire.GrantOK, grant), nil
}

func readEnqueue(call *Call, body *wire.Fields) error {
	claim, err := body.Enqueue(call.Resource.Kind)
	call.ttl, call.Resource.Limit = claim.TTL, claim.Limit
	return err
}

func enqueue(ctx context.Context, d *Desk, call Call) (Outcome, error) {
	grant, acquired, err := d.Sessions.Enqueue(ctx, call.Session, call.Resource, call.ttl)
	switch {
	case err != nil:
		return Outcome{}, err
	case !acquired:
		return Outcome{Answer: wire.Standing{Status: wire.GrantQueued}}, nil
	}
	return granted(wire.GrantAcquired, grant), nil
}

func readWait(call *Call, body *wire.Fields) (err error) {
	call.wait, err = body.Wait()
	return err
}

func wait(ctx context.Context, d *Desk, call Call) (Outcome, error) {
	grant, err := d.Sessions.Wait(ctx, call.Session, call.Resource, call.wait)
	grant.Queued = true // by enqueue, if not by this call
	return waited(grant, err)
}

func readRelease(call *Call, body *wire.Fields) (err error) {
	call.token, err = body.Release()
	return err
}

func release(ctx context.Context, d *Desk, call Call) (Outcome, error) {
	return Outcome{}, d.Sessions.Release(ctx, call.Session, call.Resource, call.token)
}

func readRenew(call *Call, body *wire.Fields) (err error) {
	call.token, call.ttl, err = body.Renew()
	return err
}

func renew(ctx context.Context, d *Desk, call Call) (Outcome, error) {
	left, err := d.Sessions.Extend(ctx, call.Session, call.Resource, call.token, call.ttl)
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{Answer: wire.NewRenewed(left)}, nil
}
