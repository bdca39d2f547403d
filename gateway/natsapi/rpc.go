package natsapi

import (
	"context"
	"iter"
	"net/http"
	"strconv"

	"github.com/nats-io/nats.go/micro"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/kvslots/wire/subjects"
)

// Calls answers calls of functions. A *forrst.Server implements it, and describes the
// parameters. Answers are whole envelopes, also those with errors; status is the HTTP
// status, and code that of the first error. hungUp blocks for some milliseconds, and
// so may a step of origins, which is an ops.Call.Origins.
type Calls interface {
	Call(ctx, detached context.Context, body []byte, authorization string, trace ops.Trace, origins iter.Seq[string], hungUp func() bool) (status int, code string, answer []byte)
	Refuse(err error) (status int, code string, answer []byte)
}

// rpcEndpoint returns kvslots.rpc. A call may wait for a lock and for its function.
func (s *Service) rpcEndpoint() endpoint {
	return endpoint{subjects.RPC, s.waitingCalls, wire.StatusOf, s.rpc}
}

// rpc answers kvslots.rpc (gateway/README.md, "Forrst: /rpc"). A cancellation ends the
// wait for the lock, and not a function that has been called.
func (s *Service) rpc(r *request) {
	name, err := r.name()
	if err != nil {
		s.refuseCall(r, err)
		return
	}
	authorization, body := r.header.Get(wire.AuthorizationHeader), r.body
	r.drop()
	ctx, waiting := s.requests.begin(r.place.Context, name)
	defer waiting.end()
	status, code, answer := s.calls.Call(ctx, s.ctx, body, authorization, r.trace, s.originsOf(r.reply), func() bool { return s.hungUp(r) })
	if int64(len(answer)) > s.nc.MaxPayload() {
		status, code, answer = s.calls.Refuse(wire.ErrAnswerTooLarge)
	}
	s.respond(r, status, code, answer)
}

// hungUp reports whether the client has certainly disconnected. It waits until the server
// has noticed closed sockets. It returns false for a request without a reply subject.
func (s *Service) hungUp(r *request) bool {
	if r.reply == "" {
		return false
	}
	return s.sender.Gone(r.reply)
}

// refuseCall answers a call that the service refuses.
func (s *Service) refuseCall(r *request, err error) {
	status, code, answer := s.calls.Refuse(err)
	s.respond(r, status, code, answer)
}

func (s *Service) respond(r *request, status int, code string, answer []byte) {
	s.done(r, status)
	m := r.envelope(answer)
	if status >= http.StatusBadRequest {
		r.count.fail(wire.Status{Code: status, Text: code})
		m.Header.Set(micro.ErrorHeader, code)
		m.Header.Set(micro.ErrorCodeHeader, strconv.Itoa(status))
	}
	s.publish(r, m, nil)
}
