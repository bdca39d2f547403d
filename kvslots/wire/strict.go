package wire

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// Fields is the body of a request, to be read by the method that is named after the
// request. Read strictly, a field that the request has no use for is refused, lest
// one that was misspelt be taken for one that was left out.
type Fields struct {
	object
	absent   bool     // there was no body at all
	repeated []string // what was given more than once
}

// ParseStrict reads a body that must be one JSON object in valid UTF-8 and
// nothing else, or be absent altogether. Like its methods it returns
// ErrMalformed, ErrTooLarge or a *kvslots.RangeError, whose texts hold nothing
// of the body.
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
	name, _ := token.(string) // what else could it be
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

// take gives the text in a field, which is then no longer in the body.
func (f *Fields) take(name string) (text string, err error) {
	if slices.Contains(f.repeated, name) {
		return "", outside(name, "given once")
	}
	text, ok := f.plainText(name)
	delete(f.object, name)
	if !ok {
		text = ""
	}
	return text, nil
}

// plainText is the string in a field. Half of a surrogate pair is no text:
// encoding/json would make the same replacement character of them all, so that
// two names would become one.
func (f *Fields) plainText(name string) (string, bool) {
	text, ok := f.text(name)
	if strings.ContainsRune(text, utf8.RuneError) && bytes.Contains(bytes.ToLower(f.object[name]), []byte(`\ud`)) {
		return "", false
	}
	return text, ok
}

// only refuses fields other than these, and any of these that is given twice.
func (f *Fields) only(names ...string) error {
	for name := range f.object {
		if !slices.Contains(names, name) {
			return unknownField(names)
		}
	}
	for _, name := range names {
		if slices.Contains(f.repeated, name) {
			return outside(name, "given once")
		}
	}
	return nil
}

// unknownField names the fields that there are, not the one that there is not:
// it may be a secret that went astray.
func unknownField(known []string) error {
	if len(known) == 0 {
		return outside("body", "empty, or an object without fields")
	}
	return outside("body", "an object with no fields but "+strings.Join(known, ", "))
}
