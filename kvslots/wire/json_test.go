package wire

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"
)

// FuzzEachField compares EachField with encoding/json.
func FuzzEachField(f *testing.F) {
	for _, body := range []string{
		`{"id":"9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01","ttl":30,"wait":0}`, " {\n\"ttl\"\t: -1 ,\r\"x\" : \"\" } ", `{}`, ` { } `,
		`{"a":1,"a":[1,{"b":"]}"}],"c":{"d":{}},"e":"\"\\","\u0041":null,"f":1.5e3,"g":true}`, `{"key":"é\ud800"}`,
		`{"ttl":1,}`, `{"ttl" 1}`, `{"ttl":1 "wait":2}`, `{1:1}`, `{"ttl":1`, `{"ttl":"`, `{"ttl":1}}`, `{`, `}`, `[]`, `"`, ``,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		type field struct {
			name  string
			value json.RawMessage
		}
		var got, want []field
		err := EachField(body, func(name, value []byte) error {
			got = append(got, field{string(name), value})
			return nil
		})
		decoder := json.NewDecoder(bytes.NewReader(body))
		token, _ := decoder.Token()
		if valid := utf8.Valid(body) && json.Valid(body) && token == json.Delim('{'); valid != (err == nil) {
			t.Fatalf("%q: %v", body, err)
		} else if !valid {
			return
		}
		for decoder.More() {
			name, _ := decoder.Token()
			next := field{name: name.(string)}
			_ = decoder.Decode(&next.value)
			want = append(want, next)
		}
		if len(got) != len(want) {
			t.Fatalf("%q: got %q, want %q", body, got, want)
		}
		for i, field := range want {
			if got[i].name != field.name || !bytes.Equal(got[i].value, field.value) {
				t.Errorf("%q: got %q, want %q", body, got[i], field)
			}
			var text string
			if decoded, ok := Text(field.value); ok && (json.Unmarshal(field.value, &text) != nil || text != decoded) {
				t.Errorf("%q is %q, want %q", field.value, decoded, text)
			}
		}
	})
}
