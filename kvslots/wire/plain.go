package wire

// parsePlain reads the bodies that nearly all clients send, without the cost of
// encoding/json: one object whose values are integers and strings, all of printable
// ASCII without escapes, and in which no field is repeated. It returns nil for any
// other body, well-formed or not, which is then left to encoding/json. The values
// are parts of the body.
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

// plainFields is how many fields most requests have at most.
const plainFields = 4

// plainScanner is what is left of a body.
type plainScanner struct{ rest []byte }

// skip passes white space and then the character c, or returns false.
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

// end is the object, if nothing follows it.
func (s *plainScanner) end(fields object) object {
	s.blanks()
	if len(s.rest) > 0 {
		return nil
	}
	return fields
}

// value takes a string or an integer; nil means neither.
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
	return s.cut(n) // a fraction or an exponent is neither ',' nor '}'
}

// text takes a string with its quotation marks; nil means that there is none, or one
// that is not plain.
func (s *plainScanner) text() []byte {
	s.blanks()
	if len(s.rest) == 0 || s.rest[0] != '"' {
		return nil
	}
	for i, c := range s.rest[1:] {
		if c == '"' {
			return s.cut(i + 2)
		}
		if !isPlain(c) {
			return nil
		}
	}
	return nil
}

func (s *plainScanner) cut(n int) []byte {
	taken := s.rest[:n:n]
	s.rest = s.rest[n:]
	return taken
}

// isPlain reports whether a byte of a JSON string stands for itself.
func isPlain(c byte) bool { return ' ' <= c && c <= '~' && c != '"' && c != '\\' }

func allPlain(text []byte) bool {
	for _, c := range text {
		if !isPlain(c) {
			return false
		}
	}
	return true
}

// fieldName saves the memory for the names that requests have.
func fieldName(name []byte) string {
	switch string(name) {
	case "id":
		return "id"
	case "ttl":
		return "ttl"
	case "wait":
		return "wait"
	case "lease":
		return "lease"
	case "session":
		return "session"
	case "key":
		return "key"
	case "token":
		return "token"
	case "acquire_timeout_s":
		return "acquire_timeout_s"
	case "lease_ttl_s":
		return "lease_ttl_s"
	}
	return string(name)
}
