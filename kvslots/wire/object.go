package wire

import (
	"encoding/json"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
)

// MaxBody is the maximal length of a request body in bytes.
const MaxBody = 64 << 10

// object is a JSON object whose values are not decoded. It is not a struct, because
// encoding/json ignores the case of a struct's field names, and leaves a field
// unchanged if its value is null.
type object map[string]json.RawMessage

// text returns the string in a field. ok is false if the field has no string.
func (o object) text(field string) (value string, ok bool) { return anyText(o[field]) }

// anyText returns the string in a JSON value. It replaces lone halves of surrogate pairs.
func anyText(raw json.RawMessage) (text string, ok bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	if inner := raw[1 : len(raw)-1]; allPlain(inner) {
		return string(inner), true
	}
	err := json.Unmarshal(raw, &text)
	return text, err == nil
}

// id returns the UUID in a field, which is required.
func (o object) id(field string) (uuid.UUID, error) {
	text, _ := o.text(field)
	return ParseID(field, text)
}

// rangeError returns the error for a field that is missing, of another type or out of
// range.
func rangeError(field, allowed string) error {
	return &kvslots.RangeError{Field: field, Range: allowed}
}
