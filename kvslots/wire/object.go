package wire

import (
	"encoding/json"
	"math"

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
	return unescaped(raw)
}

// unescaped is anyText for a text that is not plain. In a function of its own, it takes no
// allocation for one that is.
func unescaped(raw json.RawMessage) (text string, ok bool) {
	err := json.Unmarshal(raw, &text)
	return text, err == nil
}

// id returns the UUID in a field, which is required.
func (o object) id(field string) (uuid.UUID, error) {
	text, _ := o.text(field)
	return ParseID(field, text)
}

// ParseID parses a UUID in its canonical form of 36 characters, in upper or lower
// case. The error is a *kvslots.RangeError that names the field.
func ParseID(field, text string) (uuid.UUID, error) {
	// uuid.Parse would also take a urn, braces, and 32 digits without dashes.
	if len(text) == 36 {
		if id, err := uuid.Parse(text); err == nil {
			return id, nil
		}
	}
	return uuid.UUID{}, rangeError(field, "a canonical UUID of 36 characters")
}

// rangeError returns the error for a field that is missing, of another type or out of
// range.
func rangeError(field, allowed string) error {
	return &kvslots.RangeError{Field: field, Range: allowed}
}

// maxSeconds is the bound to which larger numbers of seconds are reduced: 68 years, far
// above every maximum that can be configured, and within the range of time.Duration.
const maxSeconds = math.MaxInt32
