package client

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/clock"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// transport sends requests to gateways.
type transport interface {
	// ask sends a request and passes the answer to read. If it returns an error, it has
	// informed the gateways, as far as the transport can, so that they take back what
	// they granted. Its errors are a *wire.Refusal, an *Unanswered, ErrNotUnderstood, the
	// cause of ctx, and those of read.
	ask(ctx context.Context, r request, read func(answer) error) error

	// cancel informs the gateways that requests were canceled, which are given by their ids.
	// It reports whether the transport can do so.
	cancel(ids []string) bool

	// events opens a stream of the events after an ID, which has no end of its own. Its errors
	// are those of ask, and errors.ErrUnsupported.
	events(ctx context.Context, query string, after uint64) (io.ReadCloser, error)

	close()
}

// request is a request to a gateway.
type request struct {
	wire.Route
	body wire.Request  // with the ids and the key, which HTTP has in the path
	wait time.Duration // how long the gateway may wait before it answers
	key  string        // the request key; "" for none

	// unknown collects the ids of requests with an unknown outcome, which the caller
	// cancels: the next request with the same key may take over what was granted. With
	// nil, ask cancels them itself.
	unknown *[]string

	// operation is a request of an operator, which replaces the body; nil for others.
	operation *operation

	// undo returns the request that gives back what was granted. It is called after the
	// answer was read. It is nil if the request grants nothing.
	undo func() request
}

// send sends a request whose gateway may take a time to answer, in addition to the request's wait.
func (c *Client) send(ctx context.Context, r request, timeout time.Duration, read func(answer) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.wait+timeout, ErrAnswerTimeout)
	defer cancel()
	return c.gateways.ask(ctx, r, read)
}

// ask sends a request once, and decodes its answer.
func (c *Client) ask(ctx context.Context, r request, into any) error {
	return c.send(ctx, r, cmp.Or(c.timeout, kvslots.ReturnTimeout), func(a answer) error { return a.decode(into) })
}

// answer is a successful answer of a gateway.
type answer struct {
	body   []byte
	header interface{ Get(name string) string }
}

// empty is the body of an answer that has none.
var empty = []byte("{}")

// waited returns for how long the gateway says that the request waited, which was sent at a time of package
// clock.
func (a answer) waited(sent time.Duration) time.Duration {
	ms, _ := strconv.ParseUint(a.header.Get(wire.WaitedHeader), 10, 31)
	return min(time.Duration(ms)*time.Millisecond, clock.Now()-sent)
}

// decode returns ErrNotUnderstood unless the answer is an object with the first field of what it is decoded
// into: another server's object may have none of the fields.
func (a answer) decode(into any) error {
	var fields map[string]json.RawMessage
	if json.Unmarshal(a.body, &fields) != nil || json.Unmarshal(a.body, into) != nil {
		return ErrNotUnderstood
	}
	if name := firstField(reflect.TypeOf(into).Elem()); name != "" && fields[name] == nil {
		return ErrNotUnderstood
	}
	return nil
}

// firstField returns the name of the first field of an answer's type, or "" if an answer may lack it.
func firstField(of reflect.Type) string {
	if of.NumField() == 0 {
		return ""
	}
	first := of.Field(0)
	if first.Anonymous {
		return firstField(first.Type)
	}
	name, options, _ := strings.Cut(first.Tag.Get("json"), ",")
	if options != "" {
		return ""
	}
	return name
}
