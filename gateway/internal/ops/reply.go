package ops

import (
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// Reply is the answer to a request, as every transport sends it.
type Reply struct {
	wire.Status        // of a success: the code alone
	Waited      string // the value of wire.WaitedHeader; "": the answer has no such header
	Wait        string // likewise, of wire.WaitHeader
	Place       string // likewise, of wire.PlaceHeader
	Taken       string // likewise, of wire.TakenHeader
	Body        any    // is encoded as JSON, unless it is a json.RawMessage; nil if it is empty
}

func (s *Service) Reply(c *Call) Reply {
	if reply, ok := c.Answer.(*Reply); ok {
		return *reply
	}
	reply := Reply{Status: wire.Status{Code: http.StatusOK}, Body: c.Answer, Wait: s.granted(c)}
	reply.explain(c.failed)
	switch {
	case c.Lease != nil:
		reply.Waited = wire.Waited(c.Lease.ExpiresAt().Add(-c.Lease.TTL()), c.Arrived)
	case !c.grant.At.IsZero():
		reply.Waited = wire.Waited(c.grant.At, c.Arrived)
	}
	return reply
}

func (s *Service) granted(c *Call) string {
	if !c.Grants || c.Wait == 0 {
		return ""
	}
	return strconv.FormatInt(int64(s.Lending.Clamp(c.Wait)/time.Second), 10)
}

// RefuseCall returns the answer to a call that has ended with an error: see Refuse.
func (s *Service) RefuseCall(err error, call *Call) *Reply {
	reply := s.Refuse(err, call.Operation, call.Trace())
	reply.Wait = s.granted(call)
	reply.explain(err)
	return reply
}

// explain says why a call was granted nothing. A client that may take from a pool, or a lock by its name, may read
// it.
func (r *Reply) explain(err error) {
	if taken, ok := errors.AsType[*kvslots.TakenError](err); ok {
		r.Taken = wire.NewTaken(taken).Header()
		if taken.Place > 0 {
			r.Place = strconv.Itoa(taken.Place)
		}
	}
}

// Deny returns the answer to a request that a transport refuses before it reads it all.
func (s *Service) Deny(status wire.Status) *Reply {
	s.Events.Failed(status.Name)
	return &Reply{Status: status, Body: status.Failure()}
}

// Headers calls set for each header of a reply.
func (r *Reply) Headers(set func(name, value string)) {
	for _, header := range [...][2]string{{wire.WaitedHeader, r.Waited}, {wire.WaitHeader, r.Wait}, {wire.PlaceHeader, r.Place}, {wire.TakenHeader, r.Taken}} {
		if header[1] != "" {
			set(header[0], header[1])
		}
	}
	if r.Code >= http.StatusBadRequest {
		r.Status.Headers(set)
	}
}

// Refuse returns the answer to an error of an operation, and counts it. It logs a server error,
// whose text is not in the answer.
func (s *Service) Refuse(err error, op *Operation, trace Trace) *Reply {
	if op == CallFunction {
		return s.Functions.Refuse(err)
	}
	status := op.StatusOf(err)
	s.Events.Failed(status.Name)
	if status.Failed() {
		trace.Log(s.Log, slog.LevelError, "request failed", slog.Any("error", err), slog.Int("status", status.Code))
	}
	return &Reply{Status: status, Body: status.Failure()}
}
