package forrst

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// The headers of a request to a function that runs under a lock.
const (
	// FenceHeader is the lock's fencing token.
	FenceHeader = "Kvslots-Fence"

	// LockEndsInHeader is for how many milliseconds the lock is held from when
	// the request was sent.
	LockEndsInHeader = "Kvslots-Lock-Ends-In"
)

// remote calls a function of another process.
func (s *Server) remote(ctx context.Context, c Call) (json.RawMessage, []json.RawMessage, *Error) {
	body, err := json.Marshal(call{Function: c.Function, Version: c.Version, Arguments: c.Arguments})
	if err != nil {
		return nil, nil, fault(codeRequest, "call", "JSON") // it was read as JSON: cannot happen
	}
	m := nats.NewMsg(s.cfg.Prefix + "." + c.Function)
	m.Data = body
	if c.Lock != nil {
		left := max(0, time.Until(c.Lock.ExpiresAt))
		m.Header.Set(FenceHeader, strconv.FormatUint(c.Lock.Fence, 10))
		m.Header.Set(LockEndsInHeader, strconv.FormatInt(left.Milliseconds(), 10))
	}
	reply, err := s.cfg.NATS.RequestMsgWithContext(ctx, m)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, nil, functionNotFound(c.Function)
	case ctx.Err() != nil && err != nil:
		return nil, nil, gaveUp(ctx, deadlineExceeded, outcomeUnknown)
	case errors.Is(err, nats.ErrConnectionClosed): // perhaps after it was sent
		return nil, nil, outcomeUnknown
	case err != nil:
		s.log.Warn().Err(err).Str("function", c.Function).Bool("nats_connected", s.cfg.NATS.IsConnected()).Msg("a function could not be called")
		return nil, nil, unavailable("The function could not be called; safe to retry")
	}
	result, wrong := readReply(reply)
	return result, wrong, nil
}

// readReply takes a function's reply apart: a result, or else why it failed.
func readReply(m *nats.Msg) (result json.RawMessage, wrong []json.RawMessage) {
	valid := utf8.Valid(m.Data) && json.Valid(m.Data)
	var fields map[string]json.RawMessage // nil unless the reply is an object
	if valid && json.Unmarshal(m.Data, &fields) == nil {
		if wrong = readErrors(fields["errors"]); len(wrong) > 0 {
			return nil, wrong
		}
	}
	if e := serviceError(m.Header); e != nil {
		if valid {
			e.Details = json.RawMessage(m.Data)
		}
		return nil, []json.RawMessage{encodeError(e)}
	}
	switch {
	case len(m.Data) == 0:
		return null, nil
	case !valid:
		return nil, []json.RawMessage{encodeError(&Error{Code: codeInternal, Message: "The function's answer is no JSON"})}
	case isResponse(fields):
		return fields["result"], nil
	}
	return m.Data, nil
}

// serviceError is the failure that a micro service's headers tell of, or nil. Either
// of them does, even if it is empty.
func serviceError(header nats.Header) *Error {
	if header.Values(micro.ErrorHeader) == nil && header.Values(micro.ErrorCodeHeader) == nil {
		return nil
	}
	e := &Error{Code: header.Get(micro.ErrorCodeHeader), Message: header.Get(micro.ErrorHeader)}
	if e.Code == "" {
		e.Code = codeFailed
	}
	if e.Message == "" {
		e.Message = messageFailed
	}
	return e
}

// readErrors are the entries of a reply's errors, as they are. One that is no error
// of Forrst's becomes the details of one.
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

// isResponse reports whether a reply is a whole response of Forrst's. Its result is
// the call's: the caller gets one envelope, not one within another.
func isResponse(reply map[string]json.RawMessage) bool {
	var protocol struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(reply["protocol"], &protocol) // no object: no name
	return protocol.Name == protocolName && reply["id"] != nil && reply["result"] != nil
}

// isError reports whether it has what every error of Forrst's has.
func isError(entry json.RawMessage) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(entry, &fields) != nil {
		return false
	}
	o := object{fields: fields}
	code, _ := o.text("code")
	_, told := o.text("message")
	return code != "" && told
}
