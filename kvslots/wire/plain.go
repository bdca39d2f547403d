package wire

import "bytes"

// parsePlain parses the bodies that nearly all clients send, faster than encoding/json:
// one object, without repeated fields, whose values are integers and strings, all in
// printable ASCII without escapes. It returns nil for any other body, well-formed or
// not, which the caller passes to encoding/json. The values are slices of the body.
func parsePlain(body []byte) object {
	s := plainScanner{rest: body}
	if !s.skip('{') {
		return nil
	}
	fields := make(object, plainFields)
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
		field := fieldName(name[1 : len(name)-1])
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

// plainFields is the number of fields that most requests do not exceed.
const plainFields = 4

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

func (s *plainScanner) blanks() {
	for len(s.rest) > 0 && (s.rest[0] == ' ' || s.rest[0] == '\t' || s.rest[0] == '\n' || s.rest[0] == '\r') {
		s.rest = s.rest[1:]
	}
}

// end returns the object if only white space follows it, or nil.
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
	n := 0
	if n < len(s.rest) && s.rest[n] == '-' {
		n++
	}
	first := n
	for n < len(s.rest) && '0' <= s.rest[n] && s.rest[n] <= '9' {
		n++
	}
	if n == first || s.rest[first] == '0' && n > first+1 {
		return nil
	}
	return s.cut(n) // the caller rejects a fraction or an exponent, since neither ',' nor '}' follows
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

// isPlain reports whether a byte of a JSON string is an ASCII character without an escape.
func isPlain(c byte) bool { return ' ' <= c && c <= '~' && c != '"' && c != '\\' }

func allPlain(text []byte) bool {
	for _, c := range text {
		if !isPlain(c) {
			return false
		}
	}
	return true
}

// fieldName returns the name as a string, without allocation for the usual names.
func fieldName(name []byte) string {
	for _, usual := range usualFields {
		if string(name) == usual {
			return usual
		}
	}
	return string(name)
}

var usualFields = []string{"id", "ttl", "wait", "lease", "session", "key", "token", "acquire_timeout_s", "lease_ttl_s"}
