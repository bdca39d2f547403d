package wire

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Message returns the body of a request over NATS.
func (r *Route) Message(p *Params) []byte {
	return r.encode(p, slices.Concat(targetFields[r.about], r.fields()))
}

// Body returns the body of a request over HTTP, or nil for none.
func (r *Route) Body(p *Params) []byte {
	if r.body == nil || r.Method == http.MethodGet || r.Method == http.MethodDelete {
		return nil
	}
	return r.encode(p, slices.DeleteFunc(slices.Clone(r.fields()), func(f *field) bool { return f == positionField }))
}

func (r *Route) encode(p *Params, fields []*field) []byte {
	text := []byte("{")
	for _, f := range fields {
		var value any
		if f == refField {
			value = p.Operator.ref(r.Method == http.MethodGet)
		} else {
			value = f.encoded(p)
		}
		if value == nil {
			continue
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		encoded, _ := Encode(value) // does not fail for ids, texts, numbers and booleans
		text = append(append(strconv.AppendQuote(text, f.name), ':'), encoded...)
	}
	return append(text, '}')
}

func (r *Route) fields() []*field {
	if r.body == nil {
		return nil
	}
	return r.body.fields
}

// Target returns the path of a request over HTTP, with its query.
func (r *Route) Target(p *Params) string {
	target, query := r.PathOf(r.name(p)), url.Values{}
	for _, f := range r.fields() {
		switch value := f.encoded(p); {
		case f == positionField:
			target = strings.Replace(target, "{position}", fmt.Sprint(value), 1)
		case r.has&queried != 0 && value != nil:
			query.Set(f.name, fmt.Sprint(value))
		}
	}
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	return target
}

// name returns what a path names.
func (r *Route) name(p *Params) string {
	switch r.about {
	case aSession:
		return p.Session
	case aRef:
		return p.Operator.name()
	}
	return cmp.Or(p.Key, PoolInHeader)
}

// SetHeaders sets the headers of a request over HTTP that have secrets, which a path must not have.
func (r *Route) SetHeaders(p *Params, set func(name, value string)) {
	switch {
	case r.about == aLock, r.about == aSemaphore, r.about == anyLease && p.Session != "":
		set(SessionHeader, p.Session)
	case r.about == aPool, r.about == anyLease, r.about == aBorrow:
		set(PoolHeader, p.Pool.String())
	}
	if r.has&leased != 0 {
		set(LeaseHeader, cmp.Or(p.Token, p.LeaseID.String()))
	}
}
