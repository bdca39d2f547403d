package wire

import (
	"net/url"
	"slices"
	"strings"
)

// body is what the body of a request has, or over HTTP the query of one that changes nothing.
type body struct {
	fields []*field
	strict bool // it has no other fields, so that a misspelt field is not mistaken for a missing one
}

func laxly(fields ...*field) *body { return &body{fields: fields} }

func strictly(fields ...*field) *body { return &body{fields, true} }

// maxFields is the maximal number of fields of a request over NATS.
const maxFields = 8

// input is a body while it is decoded. Known fields may be given once. The texts of its errors have nothing of the body,
// whose unknown names may be misplaced secrets.
type input struct {
	target []*field // over NATS: what says what the request is about
	body
	values  [maxFields][]byte // of these fields; nil: not given
	twice   [maxFields]bool
	unknown bool // there are other fields
	absent  bool // the body is empty
	inQuery bool
}

// parse takes a body that must be one JSON object in valid UTF-8 and nothing else, or be empty. The errors are
// ErrMalformed and ErrTooLarge.
func (in *input) parse(text []byte) error {
	switch {
	case len(text) == 0:
		in.absent = true
		return nil
	case len(text) > MaxBody:
		return ErrTooLarge
	}
	return EachField(text, in.add)
}

func (in *input) parseQuery(query string) error {
	in.inQuery = true
	values, err := url.ParseQuery(query)
	if err != nil {
		return rangeError("query", "an encoded query")
	}
	for name, all := range values {
		for _, value := range all {
			_ = in.add([]byte(name), []byte(value))
		}
	}
	return nil
}

func (in *input) add(name, value []byte) error {
	for i, n := 0, len(in.target)+len(in.fields); i < n; i++ {
		if in.field(i).name == string(name) {
			in.twice[i] = in.values[i] != nil
			in.values[i] = value
			return nil
		}
	}
	in.unknown = true
	return nil
}

func (in *input) field(i int) *field {
	if i < len(in.target) {
		return in.target[i]
	}
	return in.fields[i-len(in.target)]
}

// decode sets the parameters. Of several errors it returns that of what the request is about.
func (in *input) decode(p *Params) error {
	for i := range in.target {
		if err := in.decodeField(i, p); err != nil {
			return err
		}
	}
	switch {
	case in.unknown && in.strict && in.inQuery:
		return rangeError("query", "one with no parameters but "+strings.Join(in.names(), ", "))
	case in.unknown && in.strict:
		return rangeError("body", OnlyFields(in.names()))
	case in.absent && slices.ContainsFunc(in.fields, func(f *field) bool { return !f.optional }):
		return ErrMalformed
	}
	for i := range in.fields {
		if err := in.decodeField(len(in.target)+i, p); err != nil {
			return err
		}
	}
	return nil
}

func (in *input) decodeField(i int, p *Params) error {
	f := in.field(i)
	if in.twice[i] {
		return rangeError(f.name, Once)
	}
	return f.decode(p, in.values[i], in.inQuery)
}

func (b *body) names() (names []string) {
	for _, f := range b.fields {
		names = append(names, f.name)
	}
	return names
}

// Once is the range of a field that is given more than once.
const Once = "given once"

// OnlyFields describes an object that has no fields but the known ones.
func OnlyFields(known []string) string {
	if len(known) == 0 {
		return "empty, or an object without fields"
	}
	return "an object with no fields but " + strings.Join(known, ", ")
}
