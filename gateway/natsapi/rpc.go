package natsapi

import (
	"context"
	"net/http"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/kvslots/wire/subjects"
)

// Calls answers calls of functions; *forrst.Server does it. authorization is the
// gateway's token, as over HTTP, which calls that administer locks have to carry. Answers are whole
// envelopes, those to errors included; status is that of HTTP, and code that of
// the error. gone reports whether it is certain that the caller is gone by now; it
// takes a while, and is asked when a call's turn has come that has waited.
type Calls interface {
	Call(ctx, lasting context.Context, body []byte, authorization string, gone func() bool) (status int, code string, answer []byte)
	Refuse(err error) (status int, code string, answer []byte)
}

// rpcEndpoint is kvslots.rpc. A call may wait for a lock and for its function, so it
// shares the room of the borrows.
func (s *Service) rpcEndpoint() endpoint {
	return endpoint{subjects.RPC, s.borrows, wire.StatusOf, s.rpc}
}

// rpc answers kvslots.rpc (gateway/README.md, "Forrst: /rpc"). A cancellation ends the wait for the
// lock; a function that was called is waited for all the same.
func (s *Service) rpc(r *request) {
	name, err := r.name()
	if err != nil {
		s.refuseCall(r, err)
		return
	}
	authorization, body := r.header.Get(wire.AuthorizationHeader), r.body
	r.drop()
	ctx, done := s.requests.begin(s.ctx, name)
	defer done()
	status, code, answer := s.calls.Call(ctx, s.ctx, body, authorization, func() bool { return s.gone(r) })
	if int64(len(answer)) > s.nc.MaxPayload() {
		status, code, answer = s.calls.Refuse(wire.ErrAnswerTooLarge)
	}
	s.respond(r, status, code, answer)
}

// gone lets the server find out whether a caller has died, and asks for it. One that
// wanted no answer in the first place counts as there.
func (s *Service) gone(r *request) bool {
	if r.reply == "" {
		return false
	}
	s.deliveries.settle()
	return s.deliveries.listens(r.reply) == unheard
}

// refuseCall answers a call that was not let through.
func (s *Service) refuseCall(r *request, err error) {
	status, code, answer := s.calls.Refuse(err)
	s.respond(r, status, code, answer)
}

func (s *Service) respond(r *request, status int, code string, answer []byte) {
	r.count.done(r.arrived)
	m := nats.NewMsg(r.reply)
	m.Data = answer
	if status >= http.StatusBadRequest {
		r.count.fail(wire.Status{Code: status, Text: code})
		m.Header.Set(micro.ErrorHeader, code)
		m.Header.Set(micro.ErrorCodeHeader, strconv.Itoa(status))
	}
	s.publish(r, m, nil)
}
