package forrst

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// object is a JSON object of an envelope. Unknown fields are errors, so that a misspelt
// field is not mistaken for a missing one. It is not a struct, because encoding/json
// ignores the case of a struct's field names, and leaves a field unchanged if its value
// is null.
type object struct {
	path   string // prefix of the fields' names in errors
	code   string // code of errors
	fields map[string]json.RawMessage
}

func readObject(raw json.RawMessage, code, name, path string, known ...string) (object, *Error) {
	o := object{path: path, code: code, fields: map[string]json.RawMessage{}}
	err := wire.EachField(raw, func(key, value []byte) error {
		field := string(key)
		if !slices.Contains(known, field) {
			return unknownField(code, name, field, known)
		}
		if o.has(field) {
			return fault(code, path+field, wire.Once)
		}
		o.fields[field] = value
		return nil
	})
	if wrong, ok := errors.AsType[*Error](err); ok {
		return o, wrong
	}
	if err != nil {
		return o, fault(code, name, "an object")
	}
	return o, nil
}

// unknownField returns an error that names the unknown field. The error goes to the
// caller, and must not be logged.
func unknownField(code, object, field string, known []string) *Error {
	const most = 64
	if runes := []rune(field); len(runes) > most {
		field = string(runes[:most]) + "…"
	}
	wrong := fault(code, object, wire.OnlyFields(known))
	wrong.Message = "unknown field " + strconv.Quote(field) + " in " + object + ": " + wrong.Message
	return wrong
}

func (o object) has(field string) bool { return o.fields[field] != nil }

func (o object) fault(field, allowed string) *Error { return fault(o.code, o.path+field, allowed) }

// text returns the string in a field. ok is false if the field has no string.
func (o object) text(field string) (text string, ok bool) { return wire.Text(o.fields[field]) }

// plain returns a string of 1 to most bytes without control and invisible characters.
func (o object) plain(field string, most int) (string, *Error) {
	text, ok := o.text(field)
	if !ok || len(text) < 1 || len(text) > most || strings.ContainsFunc(text, kvslots.IsHidden) {
		return "", o.fault(field, "a string of 1 to "+strconv.Itoa(most)+" bytes without control and invisible characters")
	}
	return text, nil
}

// boolean returns a boolean field, or a default if it is missing.
func (o object) boolean(field string, otherwise bool) (bool, *Error) {
	switch string(o.fields[field]) {
	case "":
		return otherwise, nil
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, o.fault(field, "true or false")
}

func (o object) object(field string, known ...string) (object, *Error) {
	return readObject(o.fields[field], o.code, o.path+field, o.path+field+".", known...)
}
