package natsapi

import (
	"cmp"
	"encoding/json"
	"net/http"
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

// request is one request. It is the ops.Request of its call.
type request struct {
	service  *Service
	body     []byte
	reply    string // the subject of the answer; "" if the client expects none
	header   nats.Header
	arrived  time.Time
	confirms bool // whether the client will confirm a grant
	count    *counter
	op       *ops.Operation // nil for a cancellation
	trace    ops.Trace

	place *place
}

func (s *Service) newRequest(m *nats.Msg) *request {
	return &request{service: s, body: m.Data, reply: m.Reply, header: m.Header, arrived: time.Now()}
}

// enter gives the request a place in a room, and reports whether there is one for its client.
func (r *request) enter(room *room) bool {
	for client := range r.clients() {
		if r.place = room.enter(client); r.place != nil {
			return true
		}
	}
	return false
}

// aim counts the request for the pool or the lock that its call may wait for. It returns
// false if too many requests for that target are open.
func (r *request) aim(call *ops.Call) bool {
	return !call.Grants || r.place.aim(targetOf(call))
}

func targetOf(call *ops.Call) string {
	if call.Key != "" {
		return call.Key
	}
	return string(call.Pool[:])
}

// traceOf returns the ids in a request's headers, and an id of the service's own for a
// request without one. Over NATS, where case matters, the header of W3C Trace Context is in
// lower case; traceOf also accepts net/http's spelling.
func traceOf(header nats.Header) ops.Trace {
	return ops.NewTrace(func(name string) string {
		if name == wire.TraceHeader && header[wire.TraceHeaderNATS] != nil {
			name = wire.TraceHeaderNATS
		}
		return header.Get(name)
	})
}

// Remote returns "": Origins knows the client.
func (r *request) Remote() string { return "" }

func (r *request) Trace() ops.Trace { return r.trace }

// HungUp asks the server whether the reply subject has a subscription. It returns false without one.
func (r *request) HungUp() bool { return r.reply != "" && !r.service.sender.Listens(r.reply) }

// drop releases the memory of the body and the header after they were read, since the
// request may wait long.
func (r *request) drop() { r.body, r.header = nil, nil }

// name returns the name by which the request can be cancelled, or "".
func (r *request) name() (string, error) {
	names := r.header.Values(wire.RequestHeader)
	if len(names) == 0 {
		return "", nil
	}
	if n := utf8.RuneCountInString(names[0]); n < 1 || n > maxName {
		return "", &kvslots.RangeError{Field: wire.RequestHeader, Range: "1 to " + strconv.Itoa(maxName) + " characters"}
	}
	return strings.Clone(names[0]), nil // a substring would keep all headers in memory
}

// readConfirms notes whether the client will confirm.
func (r *request) readConfirms() error {
	values := r.header.Values(wire.ConfirmHeader)
	r.confirms = len(values) == 1 && values[0] == "1"
	if len(values) > 0 && !r.confirms {
		return &kvslots.RangeError{Field: wire.ConfirmHeader, Range: "1"}
	}
	return nil
}

// message returns the answer with a reply: the same body as over HTTP, or {} where HTTP has
// none, and the status of an error in the header fields where clients of micro services expect
// it. Those of Status are in the answers of all operations but functions.
func (r *request) message(reply *ops.Reply) (*nats.Msg, error) {
	var err error
	body, encoded := reply.Body.(json.RawMessage)
	if !encoded {
		body, err = wire.Encode(cmp.Or[any](reply.Body, wire.Empty{}))
	}
	m := &nats.Msg{Subject: r.reply, Data: body, Header: nats.Header{}}
	values := make([]string, 0, 5) // of most answers' headers, so that each needs no slice of its own
	set := func(name, value string) {
		values = append(values, value)
		m.Header[name] = values[len(values)-1 : len(values) : len(values)]
	}
	set(wire.RequestIDHeader, r.trace.RequestID)
	if r.service != nil && r.service.ops.Pools != nil {
		set(wire.StoreHeader, r.service.ops.Pools.ID())
	}
	reply.Headers(set)
	if reply.Code >= http.StatusBadRequest {
		set(micro.ErrorHeader, reply.Text)
		set(micro.ErrorCodeHeader, strconv.Itoa(reply.Code))
	}
	return m, err
}
