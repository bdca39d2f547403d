package wire

import (
	"bytes"
	"slices"
)

// parsePlain parses the bodies that nearly all clients send, faster than encoding/json:
// one object, without repeated fields, whose values are integers and strings, all in
// printable ASCII without escapes. It returns nil for any other body, well-formed or
// not, which the caller passes to encoding/json. The values are slices of the body.
//
// A borrow's body takes 0.6 µs and 5 allocations instead of 3.1 µs and 43: for the two bodies
// of a pair that is a tenth of what the gateway adds to the library behind net/http.
func parsePlain(body []byte) object {
	s := plainScanner{rest: body}
	if !s.skip('{') {
		return nil
	}
	fields := object{}
	if s.skip('}') {
		return s.end(fields)
	}
	for {
		name := s.text()
		if name == nil || !s.skip(':') {
			return nil
		}
		value := s.value()
		if value == nil {
			return nil
		}
		field := string(name[1 : len(name)-1])
		if _, repeated := fields[field]; repeated {
			return nil
		}
		fields[field] = value
		if s.skip('}') {
			return s.end(fields)
		}
		if !s.skip(',') {
			return nil
		}
	}
}

// plainScanner scans a body. rest is the part that is not scanned yet.
type plainScanner struct{ rest []byte }

// skip skips white space and the character c. It returns false if c does not follow.
func (s *plainScanner) skip(c byte) bool {
	s.blanks()
	if len(s.rest) == 0 || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

func (s *plainScanner) blanks() { s.rest = bytes.TrimLeft(s.rest, " \t\n\r") }

func (s *plainScanner) end(fields object) object {
	s.blanks()
	if len(s.rest) > 0 {
		return nil
	}
	return fields
}

// value scans a string or an integer. It returns nil if neither follows.
func (s *plainScanner) value() []byte {
	if text := s.text(); text != nil {
		return text
	}
	digits := bytes.TrimPrefix(s.rest, []byte("-"))
	after := bytes.TrimLeft(digits, "0123456789")
	if n := len(digits) - len(after); n == 0 || digits[0] == '0' && n > 1 {
		return nil
	}
	return s.cut(len(s.rest) - len(after)) // the caller rejects a fraction or an exponent, since neither ',' nor '}' follows
}

// text scans a string, and returns it with its quotation marks. It returns nil if no
// string follows, or one that is not plain.
func (s *plainScanner) text() []byte {
	s.blanks()
	if len(s.rest) == 0 || s.rest[0] != '"' {
		return nil
	}
	length := bytes.IndexByte(s.rest[1:], '"')
	if length < 0 || !allPlain(s.rest[1:length+1]) {
		return nil
	}
	return s.cut(length + 2)
}

func (s *plainScanner) cut(n int) []byte {
	taken := s.rest[:n:n]
	s.rest = s.rest[n:]
	return taken
}

// allPlain reports whether the text of a JSON string has only printable ASCII and no escapes.
func allPlain(text []byte) bool {
	return !slices.ContainsFunc(text, func(c byte) bool { return c < ' ' || c > '~' || c == '"' || c == '\\' })
}
