package forrst

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

func (s *Server) overNATS(ctx context.Context, c Call) outcome {
	body, err := wire.Encode(c)
	if err != nil {
		return outcome{refusal: fault(codeRequest, "call", "JSON")} // cannot happen, because the call was read from JSON
	}
	m := nats.NewMsg(s.cfg.Prefix + "." + c.Function)
	m.Data = body
	if c.Lock != nil {
		left := max(0, time.Until(c.Lock.ExpiresAt))
		m.Header.Set(wire.FenceHeader, strconv.FormatUint(c.Lock.Fence, 10))
		m.Header.Set(wire.LockEndsInHeader, strconv.FormatInt(left.Milliseconds(), 10))
	}
	if c.RequestID != "" {
		m.Header.Set(wire.RequestIDHeader, c.RequestID)
	}
	if c.Traceparent != "" {
		m.Header[wire.TraceHeaderNATS] = []string{c.Traceparent} // Set would change the case
	}
	reply, err := s.cfg.NATS.RequestMsgWithContext(ctx, m)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return outcome{refusal: functionNotFound(c.Function)}
	case ctx.Err() != nil && err != nil:
		return outcome{refusal: abandonError(ctx, deadlineExceeded, outcomeUnknown)}
	case errors.Is(err, nats.ErrConnectionClosed): // the request may have been sent
		return outcome{refusal: outcomeUnknown}
	case err != nil:
		ops.Trace{RequestID: c.RequestID, Parent: c.Traceparent}.Log(s.log, slog.LevelWarn, "a function could not be called",
			slog.Any("error", err), slog.String("function", c.Function), slog.Bool("nats_connected", s.cfg.NATS.IsConnected()))
		return outcome{refusal: unavailable("The function could not be called; safe to retry")}
	}
	return readReply(reply)
}

// readReply parses the reply of a function: a result, or the errors with which it
// failed.
func readReply(m *nats.Msg) outcome {
	valid := utf8.Valid(m.Data) && json.Valid(m.Data)
	var fields map[string]json.RawMessage // nil unless the reply is an object
	if valid && json.Unmarshal(m.Data, &fields) == nil {
		if errors := readErrors(fields["errors"]); len(errors) > 0 {
			return outcome{errors: errors}
		}
	}
	if e := serviceError(m.Header); e != nil {
		if valid {
			e.Details = json.RawMessage(m.Data)
		}
		return outcome{errors: []json.RawMessage{encodeError(e)}}
	}
	switch {
	case len(m.Data) == 0:
		return outcome{result: null}
	case !valid:
		return outcome{errors: []json.RawMessage{encodeError(&Error{Code: codeInternal, Message: "The function's answer is not JSON"})}}
	case isResponse(fields):
		return outcome{result: fields["result"]}
	}
	return outcome{result: m.Data}
}

// serviceError returns the error in the headers of a micro service, or nil. One of the
// two headers is enough, even if it is empty.
func serviceError(header nats.Header) *Error {
	if header.Values(micro.ErrorHeader) == nil && header.Values(micro.ErrorCodeHeader) == nil {
		return nil
	}
	e := &Error{Code: header.Get(micro.ErrorCodeHeader), Message: cmp.Or(header.Get(micro.ErrorHeader), messageFailed)}
	if !isCode(e.Code) {
		e.Code = codeFailed
	}
	return e
}

// readErrors returns the errors in a reply. An entry that is not an error of Forrst
// becomes the details of one.
func readErrors(raw json.RawMessage) []json.RawMessage {
	var entries []json.RawMessage
	if json.Unmarshal(raw, &entries) != nil {
		return nil
	}
	for i, entry := range entries {
		if !isError(entry) {
			entries[i] = encodeError(&Error{Code: codeFailed, Message: messageFailed, Details: entry})
		}
	}
	return entries
}

// isResponse reports whether a reply is a complete response of Forrst, whose result is
// passed on to the caller.
func isResponse(reply map[string]json.RawMessage) bool {
	var protocol struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(reply["protocol"], &protocol) // the name is "" if it is not an object
	return protocol.Name == protocolName && reply["id"] != nil && reply["result"] != nil
}

// isError reports whether an entry has the required fields of an error of Forrst.
func isError(entry json.RawMessage) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(entry, &fields) != nil {
		return false
	}
	o := object{fields: fields}
	code, _ := o.text("code")
	_, hasMessage := o.text("message")
	return isCode(code) && hasMessage
}

// isCode reports whether a text can be the code of an error, which programs compare and
// people read in logs.
func isCode(text string) bool {
	return text != "" && utf8.ValidString(text) && !strings.ContainsFunc(text, kvslots.IsHidden)
}
