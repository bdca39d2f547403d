package wire

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// Fields is the body of a request. The method named after the request parses it. If the
// body was parsed strictly, unknown and repeated fields are errors, so that a misspelt
// field is not mistaken for a missing one.
type Fields struct {
	object
	absent   bool     // the body is empty
	repeated []string // names of fields that the body contains more than once
}

// ParseStrict parses a body that must be one JSON object in valid UTF-8 and nothing
// else, or be empty. Like the methods of Fields it returns ErrMalformed, ErrTooLarge
// or a *kvslots.RangeError, whose texts contain nothing of the body.
func ParseStrict(body []byte) (Fields, error) {
	switch {
	case len(body) == 0:
		return Fields{absent: true}, nil
	case len(body) > MaxBody:
		return Fields{}, ErrTooLarge
	}
	if fields := parsePlain(body); fields != nil {
		return Fields{object: fields}, nil
	}
	if !utf8.Valid(body) || !json.Valid(body) {
		return Fields{}, ErrMalformed
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	if open, err := decoder.Token(); err != nil || open != json.Delim('{') {
		return Fields{}, ErrMalformed
	}
	fields := Fields{object: object{}}
	for decoder.More() {
		if err := fields.next(decoder); err != nil {
			return Fields{}, ErrMalformed
		}
	}
	return fields, nil
}

func (f *Fields) next(decoder *json.Decoder) error {
	token, err := decoder.Token()
	if err != nil {
		return err
	}
	name, _ := token.(string) // a field's name is always a string
	if _, known := f.object[name]; known {
		f.repeated = append(f.repeated, name)
	}
	var value json.RawMessage
	if err := decoder.Decode(&value); err != nil {
		return err
	}
	f.object[name] = value
	return nil
}

// take removes a field and returns its string, or "" if it has none.
func (f *Fields) take(name string) (text string, err error) {
	if slices.Contains(f.repeated, name) {
		return "", rangeError(name, "given once")
	}
	text, ok := f.plainText(name)
	delete(f.object, name)
	if !ok {
		text = ""
	}
	return text, nil
}

// plainText returns the string in a field. It refuses a lone half of a surrogate pair:
// encoding/json replaces each by the same character, and different names would become
// equal.
func (f *Fields) plainText(name string) (string, bool) {
	text, ok := f.text(name)
	if strings.ContainsRune(text, utf8.RuneError) && bytes.Contains(bytes.ToLower(f.object[name]), []byte(`\ud`)) {
		return "", false
	}
	return text, ok
}

// only returns an error for a field that is not named, or is given twice.
func (f *Fields) only(names ...string) error {
	for name := range f.object {
		if !slices.Contains(names, name) {
			return unknownField(names)
		}
	}
	for _, name := range names {
		if slices.Contains(f.repeated, name) {
			return rangeError(name, "given once")
		}
	}
	return nil
}

// unknownField returns an error that names the allowed fields. It does not name the
// unknown one, which may be a misplaced secret.
func unknownField(known []string) error {
	if len(known) == 0 {
		return rangeError("body", "empty, or an object without fields")
	}
	return rangeError("body", "an object with no fields but "+strings.Join(known, ", "))
}
