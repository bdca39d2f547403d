package ops

import (
	"net/http"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// Reply is the answer to a request, as every transport sends it.
type Reply struct {
	wire.Status        // of a success: the code alone
	Waited      string // the value of wire.WaitedHeader; "": the answer has no such header
	Body        any    // is encoded as JSON, unless it is a json.RawMessage; nil if it is empty
}

// Reply returns the answer to a call without an error.
func (c *Call) Reply() Reply {
	if reply, ok := c.Answer.(*Reply); ok {
		return *reply
	}
	reply := Reply{Status: wire.Status{Code: http.StatusOK}, Body: c.Answer}
	if c.Lease != nil {
		reply.Waited = wire.Waited(c.Lease, c.Arrived)
	}
	return reply
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
		trace.Log(s.Log.Error()).Err(err).Int("status", status.Code).Msg("request failed")
	}
	return &Reply{Status: status, Body: status.Failure()}
}
