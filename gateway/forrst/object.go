package forrst

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// object is a JSON object of an envelope that is read strictly: what a request has
// no use for is refused, lest a field that was misspelt be taken for one that was
// left out. A map rather than a struct: encoding/json matches the fields of a struct
// whatever their case, and takes null for "leave it as it is".
type object struct {
	path   string // what its fields' names begin with in errors
	code   string // of its errors
	fields map[string]json.RawMessage
}

// readObject reads an object that has these fields at most.
func readObject(raw json.RawMessage, code, name, path string, known ...string) (object, *Error) {
	o := object{path: path, code: code, fields: map[string]json.RawMessage{}}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if open, err := decoder.Token(); err != nil || open != json.Delim('{') {
		return o, fault(code, name, "an object")
	}
	for decoder.More() {
		token, err := decoder.Token()
		field, _ := token.(string)
		var value json.RawMessage
		if err != nil || decoder.Decode(&value) != nil {
			return o, fault(code, name, "an object")
		}
		if !slices.Contains(known, field) {
			return o, unknownField(code, name, field, known)
		}
		if _, given := o.fields[field]; given {
			return o, fault(code, path+field, "given once")
		}
		o.fields[field] = value
	}
	return o, nil
}

// unknownField names the field, which its caller is told and no log is.
func unknownField(code, object, field string, known []string) *Error {
	const most = 64
	if runes := []rune(field); len(runes) > most {
		field = string(runes[:most]) + "…"
	}
	wrong := fault(code, object, "an object with no fields but "+strings.Join(known, ", "))
	wrong.Message = "unknown field " + strconv.Quote(field) + " in " + object + ": " + wrong.Message
	return wrong
}

// has reports whether a field was given.
func (o object) has(field string) bool { return o.fields[field] != nil }

func (o object) fault(field, allowed string) *Error { return fault(o.code, o.path+field, allowed) }

// text is the string in a field; ok is false if there is none. Half of a surrogate
// pair is no text: encoding/json would make the same replacement character of them
// all, so that two names would become one.
func (o object) text(field string) (text string, ok bool) {
	raw := o.fields[field]
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
		return "", false
	}
	if strings.ContainsRune(text, utf8.RuneError) && bytes.Contains(bytes.ToLower(raw), []byte(`\ud`)) {
		return "", false
	}
	return text, true
}

// plain is a string of 1 to most bytes without control characters.
func (o object) plain(field string, most int) (string, *Error) {
	text, ok := o.text(field)
	if !ok || len(text) < 1 || len(text) > most || strings.ContainsFunc(text, unicode.IsControl) {
		return "", o.fault(field, "a string of 1 to "+strconv.Itoa(most)+" bytes without control characters")
	}
	return text, nil
}

// boolean is what is in a field, or else what it is by default.
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

// object is an object in a field, which has to be there.
func (o object) object(field string, known ...string) (object, *Error) {
	return readObject(o.fields[field], o.code, o.path+field, o.path+field+".", known...)
}
