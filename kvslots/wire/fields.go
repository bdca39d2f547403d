package wire

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// Fields is the body of a request. A reader makes parameters of it, and returns a
// *kvslots.RangeError or ErrMalformed. All refuse a field that is given twice; those for /v1 refuse unknown
// fields, too, so that a misspelt field is not mistaken for a missing one.
type Fields struct {
	object
	absent   bool     // the body is empty
	repeated []string // names of fields that the body contains more than once
	inQuery  bool     // the fields are those of a query, all of them strings
}

// Parse parses a body that must be one JSON object in valid UTF-8 and nothing else, or be empty. It returns
// ErrMalformed or ErrTooLarge. The texts of its errors, and of those of Fields, contain nothing of the body.
func Parse(body []byte) (Fields, error) {
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
	fields := Fields{object: object{}}
	err := EachField(body, func(name string, value json.RawMessage) error {
		if _, known := fields.object[name]; known {
			fields.repeated = append(fields.repeated, name)
		}
		fields.object[name] = value
		return nil
	})
	return fields, err
}

// EachField calls do for each field of a JSON object, in order, until do returns an error.
// It returns that error, or ErrMalformed if it cannot read a field.
func EachField(object []byte, do func(name string, value json.RawMessage) error) error {
	decoder := json.NewDecoder(bytes.NewReader(object))
	if open, err := decoder.Token(); err != nil || open != json.Delim('{') {
		return ErrMalformed
	}
	for decoder.More() {
		token, err := decoder.Token()
		name, _ := token.(string) // a field's name is always a string
		var value json.RawMessage
		if err != nil || decoder.Decode(&value) != nil {
			return ErrMalformed
		}
		if err := do(name, value); err != nil {
			return err
		}
	}
	return nil
}

// take removes a field and returns its string, or "" if it is not a string.
func (f Fields) take(name string) (text string, err error) {
	if err := f.once(name); err != nil {
		return "", err
	}
	text, _ = Text(f.object[name])
	delete(f.object, name)
	return text, nil
}

// Once is the range of a field that is given more than once.
const Once = "given once"

// once returns an error if a field is given more than once.
func (f Fields) once(name string) error {
	if slices.Contains(f.repeated, name) {
		return rangeError(name, Once)
	}
	return nil
}

// Text returns the string in a JSON value. ok is false for a value of another type, and for
// a lone half of a surrogate pair: encoding/json replaces each by the same character, and
// different names would become equal.
func Text(value json.RawMessage) (text string, ok bool) {
	text, ok = anyText(value)
	if strings.ContainsRune(text, utf8.RuneError) && bytes.Contains(bytes.ToLower(value), []byte(`\ud`)) {
		return "", false
	}
	return text, ok
}

// only returns an error if the body has a field that is not among names.
func (f Fields) only(names ...string) error {
	for name := range f.object {
		if !slices.Contains(names, name) {
			if f.inQuery {
				return rangeError("query", "one with no parameters but "+strings.Join(names, ", "))
			}
			return rangeError("body", OnlyFields(names)) // not the unknown name, which may be a misplaced secret
		}
	}
	return nil
}

// OnlyFields describes an object that has no fields but the known ones.
func OnlyFields(known []string) string {
	if len(known) == 0 {
		return "empty, or an object without fields"
	}
	return "an object with no fields but " + strings.Join(known, ", ")
}
