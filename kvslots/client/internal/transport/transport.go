// Package transport is what a client.Client needs of a transport: so a program over HTTP does without NATS.
package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"

	"github.com/kvslots/kvslots/kvslots/wire"
)

type Transport interface {
	// Ask sends a request and passes the answer to read. If it returns an error, it has
	// informed the gateways, as far as the transport can, so that they take back what
	// they granted. Its errors are a *wire.Refusal, a *client.Unanswered, ErrNotUnderstood, the
	// cause of ctx, and those of read.
	Ask(ctx context.Context, r Request, read func(Answer) error) error

	// Cancel informs the gateways that requests were canceled, which are given by their ids.
	// It reports whether the transport can do so.
	Cancel(ids []string) bool

	// Events opens a stream of the events after an ID, which has no end of its own. Its errors
	// are those of Ask, and errors.ErrUnsupported.
	Events(ctx context.Context, query string, after uint64) (io.ReadCloser, error)

	Close()
}

type Request struct {
	wire.Route
	wire.Params

	// Unknown collects the ids of requests with an unknown outcome, which the caller
	// cancels: the next request with the same key may take over what was granted. With
	// nil, Ask cancels them itself.
	Unknown *[]string

	// Undo returns the request that gives back what was granted. It is called after the
	// answer was read. It is nil if the request grants nothing.
	Undo func() Request
}

type Answer struct {
	Body   []byte
	Header interface{ Get(name string) string }
}

// ErrNotUnderstood is client.ErrNotUnderstood.
var ErrNotUnderstood = errors.New("the answer is not a gateway's")

// Decode returns ErrNotUnderstood unless the answer is an object with the first field of what it is decoded
// into: another server's object may have none of the fields.
func (a Answer) Decode(into any) error {
	if json.Unmarshal(a.Body, into) != nil || !bytes.Contains(a.Body, firstField(reflect.TypeOf(into).Elem())) {
		return ErrNotUnderstood
	}
	return nil
}

// firstField returns what is in an answer with the first field of its type, or nothing if an answer may lack it.
func firstField(of reflect.Type) []byte {
	if of.NumField() == 0 {
		return nil
	}
	first := of.Field(0)
	if first.Anonymous {
		return firstField(first.Type)
	}
	name, options, _ := strings.Cut(first.Tag.Get("json"), ",")
	if options != "" {
		return nil
	}
	return []byte(`"` + name + `":`)
}
