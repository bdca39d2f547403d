package wire

import (
	"encoding/json"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
)

// MaxBody is the largest request body that is read, in bytes.
const MaxBody = 64 << 10

// object is a JSON object whose fields are still text. A map rather than a
// struct: encoding/json matches the fields of a struct whatever their case,
// and takes null for "leave it as it is".
type object map[string]json.RawMessage

// parseObject reads a body that must be one JSON object and nothing else.
func parseObject(body []byte) (object, error) {
	if len(body) > MaxBody {
		return nil, ErrTooLarge
	}
	if fields := parsePlain(body); fields != nil {
		return fields, nil
	}
	var fields object
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, ErrMalformed // not err's own text: it quotes the body
	}
	if fields == nil { // a bare null
		return nil, ErrMalformed
	}
	return fields, nil
}

// text is the string in a field.
func (o object) text(field string) (string, bool) {
	raw, ok := o[field]
	if !ok || len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	if inner := raw[1 : len(raw)-1]; allPlain(inner) {
		return string(inner), true
	}
	var text string
	err := json.Unmarshal(raw, &text)
	return text, err == nil
}

// id is the UUID in a field; it must be there.
func (o object) id(field string) (uuid.UUID, error) {
	text, _ := o.text(field)
	return ParseID(field, text)
}

// outside reports a field that is missing, of another type or out of range.
func outside(field, allowed string) error {
	return &kvslots.RangeError{Field: field, Range: allowed}
}
