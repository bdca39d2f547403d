package natsapi

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots/wire"
)

func (s *Service) answer(r *request, call *ops.Call) {
	reply := s.ops.Reply(call)
	s.reply(r, &reply)
}

// refuse sends the answer for an error, according to the table. The text of a server error
// is only logged.
func (s *Service) refuse(r *request, err error) { s.reply(r, s.ops.Refuse(err, r.op, r.trace)) }

func (s *Service) reply(r *request, reply *ops.Reply) {
	message, err := r.message(reply)
	switch {
	case err != nil && reply.Code == http.StatusOK:
		s.refuse(r, err)
		return
	case int64(len(message.Data)) > s.nc.MaxPayload():
		s.refuse(r, wire.ErrAnswerTooLarge)
		return
	}
	s.done(r, reply)
	s.publish(r, message, err)
}

func (s *Service) done(r *request, reply *ops.Reply) {
	r.count.done(r.arrived)
	if reply.Code >= http.StatusBadRequest {
		r.count.fail(reply.Status)
	}
	r.trace.Log(s.log, ops.AccessLevel(reply.Code), "request", slog.String("subject", r.count.subject),
		slog.Int("status", reply.Code), slog.Float64("duration_ms", ops.Milliseconds(time.Since(r.arrived))))
}

// publish sends an answer, if there is one and the request named a reply subject.
func (s *Service) publish(r *request, message *nats.Msg, err error) {
	if err == nil && r.reply != "" {
		err = s.nc.PublishMsg(message)
	}
	s.logUnsent(err)
}

func (s *Service) logUnsent(err error) {
	if err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		s.log.Warn("an answer could not be sent", "error", err)
	}
}

// recoverPanic turns a panic into a 500 and a log line with the stack.
func (s *Service) recoverPanic(r *request) {
	reason := recover()
	if reason == nil {
		return
	}
	r.trace.Log(s.log, slog.LevelError, ops.Panicked, ops.PanicAttrs(reason)...)
	s.refuse(r, errPanicked)
}

var errPanicked = errors.New(ops.Panicked) // in no table: a 500
