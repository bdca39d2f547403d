package natsapi

import (
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

const maxName = 64 // characters of a wire.RequestHeader

// request is one request, as it arrived.
type request struct {
	body     []byte
	reply    string // where the answer goes; empty when the requester wants none
	header   nats.Header
	arrived  time.Time
	confirms bool // the requester will confirm a grant
	count    *counter
	statusOf wire.Lookup // the table of errors
	isCall   bool        // its errors are those of Calls
}

func newRequest(m *nats.Msg) *request {
	return &request{body: m.Data, reply: m.Reply, header: m.Header, arrived: time.Now()}
}

// drop lets go of what has been read, since the request may wait for long.
func (r *request) drop() { r.body, r.header = nil, nil }

// name is what the requester calls this request; empty without one.
func (r *request) name() (string, error) {
	names := r.header.Values(wire.RequestHeader)
	if len(names) == 0 {
		return "", nil
	}
	if n := utf8.RuneCountInString(names[0]); n < 1 || n > maxName {
		return "", &kvslots.RangeError{Field: wire.RequestHeader, Range: "1 to " + strconv.Itoa(maxName) + " characters"}
	}
	return strings.Clone(names[0]), nil // not a part of all the headers
}

// readConfirms notes whether the requester will confirm.
func (r *request) readConfirms() error {
	values := r.header.Values(wire.ConfirmHeader)
	r.confirms = len(values) == 1 && values[0] == "1"
	if len(values) > 0 && !r.confirms {
		return &kvslots.RangeError{Field: wire.ConfirmHeader, Range: "1"}
	}
	return nil
}

// success is the message with what a call came to.
func (r *request) success(call *ops.Call) (*nats.Msg, error) {
	answer := call.Answer
	if answer == nil {
		answer = wire.Empty{}
	}
	m, err := r.message(answer)
	if err == nil && call.Lease != nil {
		setHeader(m, wire.WaitedHeader, wire.Waited(call.Lease, r.arrived))
	}
	return m, err
}

func (r *request) message(answer any) (*nats.Msg, error) {
	body, err := wire.Encode(answer)
	if err != nil {
		return nil, err
	}
	return &nats.Msg{Subject: r.reply, Data: body}, nil
}

// setHeader makes the headers with the first of them; most answers have none.
func setHeader(m *nats.Msg, name, value string) {
	if m.Header == nil {
		m.Header = nats.Header{}
	}
	m.Header.Set(name, value)
}

// failure is the message with an error: the same body as over HTTP, and its
// status where clients of micro services look for it.
func (r *request) failure(status wire.Status) (*nats.Msg, error) {
	m, err := r.message(status.Failure())
	if err != nil {
		return nil, err
	}
	setHeader(m, wire.ErrorHeader, status.Name)
	setHeader(m, micro.ErrorHeader, status.Text)
	setHeader(m, micro.ErrorCodeHeader, strconv.Itoa(status.Code))
	if status.Retry {
		setHeader(m, wire.RetryAfterHeader, "1")
	}
	return m, nil
}
