package client

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client/internal/transport"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// operation is a request of an operator. Its parameters are in the path, the query and the body
// over HTTP, and all in the body over NATS.
type operation struct {
	wire.Route
	path   string
	query  url.Values
	body   any            // over HTTP; nil if it is empty
	fields map[string]any // of the body over NATS
}

// about returns a request about a pool, a lock or a semaphore: over HTTP by its hash; over NATS by its id, and a read of a lock or a
// semaphore by its name.
func about(pool kvslots.PoolRef, route wire.Route) operation {
	r := named(pool.Hash(), route)
	if id, byID := pool.ID(); byID {
		r.fields["ref"] = id
	} else if pool.Key() != "" && route.Method == http.MethodGet {
		r.fields["ref"] = pool.Key()
	}
	return r
}

func named(ref string, route wire.Route) operation {
	return operation{Route: route, path: route.PathOf(ref), query: url.Values{}, fields: map[string]any{"ref": ref}}
}

// ofHolder returns a request about what its sender holds, or waits for. Its ids are in headers over HTTP, where ref is in the path.
func ofHolder(route wire.Route, ref string, body wire.Request) request {
	fields := map[string]any{"ref": ref}
	if body.ID != nil {
		fields["ref"] = body.ID
	}
	if body.Lease != nil {
		fields["lease"] = body.Lease
	}
	if body.Session != "" {
		fields["session"], fields["token"] = body.Session, body.Token
	}
	return request{Route: route, Body: body, Operation: &transport.Operation{Target: route.PathOf(ref), Data: encode(fields)}}
}

func (r *operation) ask(field string, value any) {
	r.query.Set(field, fmt.Sprint(value))
	r.fields[field] = value
}

func (r *operation) at(position int) {
	r.path = strings.Replace(r.path, "{position}", strconv.Itoa(position), 1)
	r.fields["position"] = position
}

func (r operation) request() request {
	o := &transport.Operation{Target: r.path, Data: encode(r.fields)}
	if len(r.query) > 0 {
		o.Target += "?" + r.query.Encode()
	}
	if r.body != nil {
		o.Body = encode(r.body)
	}
	return request{Route: r.Route, Operation: o}
}

func encode(v any) []byte {
	body, _ := wire.Encode(v) // does not fail for ids, texts and numbers
	return body
}
