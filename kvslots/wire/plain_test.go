package wire

import (
	"encoding/json"
	"reflect"
	"testing"
)

var plainBodies = []struct {
	name, body string
	plain      bool
}{
	{"a borrow", `{"id":"9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01","ttl":30,"wait":0}`, true},
	{"blanks", " {\n\"ttl\"\t: -1 ,\r\"x\" : \"\" } ", true},
	{"no fields", `{}`, true},
	{"many fields", `{"a":1,"b":2,"c":3,"d":4,"e":"5","f":"6"}`, true},
	{"repeated", `{"ttl":1,"ttl":2}`, false},
	{"escape", `{"key":"\u0041"}`, false},
	{"escaped name", `{"\u0041":1}`, false},
	{"not ASCII", `{"key":"é"}`, false},
	{"control character", "{\"key\":\"\x00\"}", false},
	{"fraction", `{"ttl":1.5}`, false},
	{"exponent", `{"ttl":1e3}`, false},
	{"leading zero", `{"ttl":01}`, false},
	{"minus", `{"ttl":-}`, false},
	{"null", `{"ttl":null}`, false},
	{"object", `{"ttl":{}}`, false},
	{"array", `{"ttl":[1]}`, false},
	{"comma at the end", `{"ttl":1,}`, false},
	{"no colon", `{"ttl" 1}`, false},
	{"no comma", `{"ttl":1 "wait":2}`, false},
	{"number as name", `{1:1}`, false},
	{"cut off", `{"ttl":1`, false},
	{"cut off in a string", `{"ttl":"`, false},
	{"behind it", `{"ttl":1}}`, false},
	{"nothing", ``, false},
}

func TestParsePlain(t *testing.T) {
	for _, c := range plainBodies {
		t.Run(c.name, func(t *testing.T) {
			if got := parsePlain([]byte(c.body)); (got != nil) != c.plain {
				t.Errorf("got %q", got)
			}
			checkPlain(t, []byte(c.body))
		})
	}
	for _, c := range notObjects {
		checkPlain(t, []byte(c.body))
	}
}

// FuzzParsePlain compares parsePlain with encoding/json for every plain body.
func FuzzParsePlain(f *testing.F) {
	for _, c := range plainBodies {
		f.Add([]byte(c.body))
	}
	f.Fuzz(checkPlain)
}

func checkPlain(t *testing.T, body []byte) {
	got := parsePlain(body)
	if got == nil {
		return
	}
	var want object
	if err := json.Unmarshal(body, &want); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%q\n got %q\nwant %q, %v", body, got, want, err)
	}
	for field := range got {
		text, ok := got.text(field)
		var wanted string
		isText := json.Unmarshal(want[field], &wanted) == nil
		if ok != isText || text != wanted {
			t.Errorf("%q: field %s is %q, %v; want %q, %v", body, field, text, ok, wanted, isText)
		}
	}
}
