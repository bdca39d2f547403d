package client

import (
	"fmt"
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

func about(pool kvslots.PoolRef, route wire.Route) operation {
	r := operation{
		Route: route, path: strings.NewReplacer("{hash}", pool.Hash(), "{key}", url.PathEscape(pool.Key())).Replace(route.Path),
		query: url.Values{}, fields: map[string]any{},
	}
	id, byID := pool.ID()
	switch {
	case byID:
		r.fields["id"] = id
	case pool.Key() != "":
		r.fields["key"] = pool.Key()
	default:
		r.fields["hash"] = pool.Hash()
	}
	return r
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
