package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// EachField calls do for each field of a JSON object, in order, until do returns an error, which it returns then. It returns
// ErrMalformed unless the text is one object, in valid UTF-8, and nothing else. The values are parts of the text.
//
// A struct would not do: encoding/json ignores the case of a struct's field names, leaves a field unchanged if its
// value is null, and takes the last of the values of a field.
func EachField(text []byte, do func(name, value []byte) error) error {
	text = bytes.Trim(text, blanks)
	if len(text) == 0 || text[0] != '{' || !utf8.Valid(text) || !json.Valid(text) {
		return ErrMalformed
	}
	for rest := bytes.TrimLeft(text[1:len(text)-1], blanks); len(rest) > 0; rest = bytes.TrimLeft(rest, blanks+",") {
		var name, value []byte
		name, rest = cut(rest)
		value, rest = cut(bytes.TrimLeft(rest, blanks+":"))
		if inner := name[1 : len(name)-1]; allPlain(inner) {
			name = inner
		} else {
			name = []byte(unescaped(name))
		}
		if err := do(name, value); err != nil {
			return err
		}
	}
	return nil
}

const blanks = " \t\n\r"

// cut returns the value that valid JSON begins with, and what follows.
func cut(text []byte) (value, rest []byte) {
	depth, inText := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '{' || c == '[':
			depth++
		case depth > 0 && (c == '}' || c == ']'):
			depth--
		case depth == 0 && strings.IndexByte(blanks+",:", c) >= 0:
			return text[:i], text[i:]
		}
	}
	return text, nil
}

// Text returns the string in a JSON value. ok is false for a value of another type, and for
// a lone half of a surrogate pair: encoding/json replaces each by the same character, and
// different names would become equal.
func Text(value []byte) (text string, ok bool) {
	if len(value) == 0 || value[0] != '"' {
		return "", false
	}
	if inner := value[1 : len(value)-1]; allPlain(inner) {
		return string(inner), true
	}
	text = unescaped(value)
	return text, !strings.ContainsRune(text, utf8.RuneError) || !bytes.Contains(bytes.ToLower(value), []byte(`\ud`))
}

// unescaped returns the text of a string. In a function of its own, it takes no allocation for one that is plain.
func unescaped(value []byte) (text string) {
	_ = json.Unmarshal(value, &text) // does not fail for a valid string
	return text
}

// allPlain reports whether the text of a JSON string has only printable ASCII and no escapes.
func allPlain(text []byte) bool {
	return !slices.ContainsFunc(text, func(c byte) bool { return c < ' ' || c > '~' || c == '"' || c == '\\' })
}

// integer returns a value that must be a whole number, as 30.0 and 3e1 are, too. A number that a float64 may
// not have exactly, or an int64 not at all, counts as the nearest one.
func integer(value []byte) (n int64, ok bool) {
	if !json.Valid(value) { // in a URL
		return 0, false
	}
	text := string(value)
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return n, true
	}
	const exact = 1 << 53
	float, err := strconv.ParseFloat(text, 64) // infinite if it is out of range
	whole := (err == nil || errors.Is(err, strconv.ErrRange)) && float == math.Trunc(float)
	return int64(min(max(float, -exact), exact)), whole
}
