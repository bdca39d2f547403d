package wire

import (
	"strings"
	"testing"
	"time"
)

const (
	countText = "count must be an integer between 0 and 1000"
	ttlText   = "ttl must be a whole number of seconds, 1 or more"
	waitText  = "wait must be a whole number of seconds, 0 or more"
	leaseText = "lease must be a canonical UUID of 36 characters"
	idText    = "id must be a canonical UUID of 36 characters"
	malformed = "body must be one JSON object"
	tooLarge  = "body must be at most 64 KiB"
)

// notObjects are bodies that every parser refuses.
var notObjects = []struct{ name, body, want string }{
	{"empty", ``, malformed},
	{"blank", ` `, malformed},
	{"null", `null`, malformed},
	{"array", `[{"count":1,"ttl":1}]`, malformed},
	{"string", `"count"`, malformed},
	{"number", `1`, malformed},
	{"cut off", `{"count":1,"ttl":1`, malformed},
	{"trailing data", `{"count":1,"ttl":1} x`, malformed},
	{"two objects", `{"count":1,"ttl":1}{"count":1,"ttl":1}`, malformed},
	{"comma at the end", `{"count":1,"ttl":1,}`, malformed},
	{"single quotes", `{'count':1,'ttl':1}`, malformed},
	{"not a number", `{"count":NaN,"ttl":NaN}`, malformed},
	{"leading zero", `{"count":01,"ttl":01}`, malformed},
	{"plus sign", `{"count":+1,"ttl":+1}`, malformed},
	{"byte order mark", "\ufeff" + `{"count":1,"ttl":1}`, malformed},
	{"invalid UTF-8", `{"count":1,"ttl":1,"label":"` + "\xff" + `"}`, malformed},
	{"deep nesting", `{"x":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, malformed},
	{"too large", `{"count":1,"ttl":1}` + strings.Repeat(" ", MaxBody), tooLarge},
}

// parsed returns the parameters in a body, and behind what says over NATS what a request is about; none after an error.
func parsed(text string, b *body, target ...*field) (Params, error) {
	in, p := input{target: target, body: *b}, Params{}
	err := in.parse([]byte(text))
	if err == nil {
		err = in.decode(&p)
	}
	if err != nil {
		return Params{}, err
	}
	return p, nil
}

func TestNotObjects(t *testing.T) {
	for name, b := range map[string]*body{
		"register": RegisterPool.body, "borrow": Borrow.body, "return": Return.body, "renew": RenewLease.body,
	} {
		for _, c := range notObjects {
			_, err := parsed(c.body, b)
			t.Run(name+" "+c.name, func(t *testing.T) { checkText(t, err, c.want) })
		}
	}
}

func TestParseRegister(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       int
		wantErr    string
	}{
		{"lowest", `{"count":0}`, 0, ""},
		{"highest", `{"count":1000}`, 1000, ""},
		{"minus zero", `{"count":-0}`, 0, ""},
		{"blanks", " {\n\t\"count\" : 4 }\r\n ", 4, ""},
		{"unknown fields", `{"count":4,"Count":9,"other":{"a":[1]}}`, 4, ""},
		{"given twice", `{"count":4,"count":5}`, 0, "count must be given once"},
		{"given twice, once escaped", `{"count":4,"c\u006funt":5}`, 0, "count must be given once"},
		{"other fields given twice", `{"count":4,"a":1,"a":2}`, 4, ""},
		{"whole with a fraction", `{"count":4.0}`, 4, ""},
		{"whole with an exponent", `{"count":1e2}`, 100, ""},
		{"far above with an exponent", `{"count":1e400}`, 0, countText},
		{"escaped name", `{"\u0063ount":4}`, 4, ""},
		{"above", `{"count":1001}`, 0, countText},
		{"far above", `{"count":99999999999999999999}`, 0, countText},
		{"below", `{"count":-1}`, 0, countText},
		{"far below", `{"count":-99999999999999999999}`, 0, countText},
		{"missing", `{}`, 0, countText},
		{"other case", `{"Count":4}`, 0, countText},
		{"null", `{"count":null}`, 0, countText},
		{"fraction", `{"count":4.5}`, 0, countText},
		{"fraction with an exponent", `{"count":45e-1}`, 0, countText},
		{"string", `{"count":"4"}`, 0, countText},
		{"boolean", `{"count":true}`, 0, countText},
		{"array", `{"count":[4]}`, 0, countText},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parsed(c.body, RegisterPool.body)
			checkText(t, err, c.wantErr)
			if got.Count != c.want {
				t.Errorf("count %d, want %d", got.Count, c.want)
			}
		})
	}
}

func TestParseBorrow(t *testing.T) {
	const most = maxSeconds * time.Second
	for _, c := range []struct {
		name, body string
		ttl, wait  time.Duration
		wantErr    string
	}{
		{"both", `{"ttl":30,"wait":25}`, 30 * time.Second, 25 * time.Second, ""},
		{"no wait", `{"ttl":1}`, time.Second, 0, ""},
		{"wait zero", `{"ttl":1,"wait":0}`, time.Second, 0, ""},
		{"huge", `{"ttl":99999999999999999999,"wait":99999999999999999999}`, most, most, ""},
		{"above an int64's nanoseconds", `{"ttl":9223372037,"wait":9223372036854775807}`, most, most, ""},
		{"unknown fields", `{"ttl":1,"Wait":"x","labels":null}`, time.Second, 0, ""},
		{"missing ttl", `{"wait":1}`, 0, 0, ttlText},
		{"ttl zero", `{"ttl":0}`, 0, 0, ttlText},
		{"ttl negative", `{"ttl":-1}`, 0, 0, ttlText},
		{"ttl whole with a fraction", `{"ttl":30.0}`, 30 * time.Second, 0, ""},
		{"ttl fraction", `{"ttl":1.5}`, 0, 0, ttlText},
		{"ttl exponent", `{"ttl":3e1,"wait":1E+1}`, 30 * time.Second, 10 * time.Second, ""},
		{"ttl given twice", `{"ttl":1,"ttl":600}`, 0, 0, "ttl must be given once"},
		{"ttl string", `{"ttl":"30"}`, 0, 0, ttlText},
		{"ttl null", `{"ttl":null}`, 0, 0, ttlText},
		{"ttl boolean", `{"ttl":true}`, 0, 0, ttlText},
		{"ttl other case", `{"TTL":30}`, 0, 0, ttlText},
		{"wait negative", `{"ttl":1,"wait":-1}`, 0, 0, waitText},
		{"wait far below", `{"ttl":1,"wait":-99999999999999999999}`, 0, 0, waitText},
		{"wait zero with a fraction", `{"ttl":1,"wait":0.0}`, time.Second, 0, ""},
		{"wait fraction", `{"ttl":1,"wait":0.5}`, 0, 0, waitText},
		{"wait string", `{"ttl":1,"wait":"1"}`, 0, 0, waitText},
		{"wait null", `{"ttl":1,"wait":null}`, 0, 0, waitText},
		{"wait object", `{"ttl":1,"wait":{}}`, 0, 0, waitText},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parsed(c.body, Borrow.body)
			checkText(t, err, c.wantErr)
			if got.TTL != c.ttl || got.Wait != c.wait {
				t.Errorf("ttl %v, wait %v; want %v, %v", got.TTL, got.Wait, c.ttl, c.wait)
			}
		})
	}
}

func TestParseReturn(t *testing.T) {
	const id = "3a7d0b14-9e2c-4f6a-8b1d-0c5e2f9a7b34"
	for _, c := range []struct{ name, body, want, wantErr string }{
		{"lower case", `{"lease":"` + id + `"}`, id, ""},
		{"upper case", `{"lease":"` + strings.ToUpper(id) + `"}`, id, ""},
		{"escaped", `{"lease":"\u0033a7d0b14-9e2c-4f6a-8b1d-0c5e2f9a7b34"}`, id, ""},
		{"missing", `{}`, "", leaseText},
		{"other case", `{"Lease":"` + id + `"}`, "", leaseText},
		{"null", `{"lease":null}`, "", leaseText},
		{"number", `{"lease":3}`, "", leaseText},
		{"object", `{"lease":{"id":"` + id + `"}}`, "", leaseText},
		{"empty", `{"lease":""}`, "", leaseText},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parsed(c.body, Return.body)
			checkText(t, err, c.wantErr)
			if c.wantErr == "" && got.LeaseID.String() != c.want {
				t.Errorf("lease %v, want %v", got.LeaseID, c.want)
			}
		})
	}
}

func TestParseRenew(t *testing.T) {
	const id = "3a7d0b14-9e2c-4f6a-8b1d-0c5e2f9a7b34"
	for _, c := range []struct {
		name, body string
		ttl        time.Duration
		wantErr    string
	}{
		{"both", `{"lease":"` + id + `","ttl":30}`, 30 * time.Second, ""},
		{"huge", `{"lease":"` + id + `","ttl":99999999999999999999}`, maxSeconds * time.Second, ""},
		{"no lease", `{"ttl":30}`, 0, leaseText},
		{"no ttl", `{"lease":"` + id + `"}`, 0, ttlText},
		{"ttl in words", `{"lease":"` + id + `","ttl":"30s"}`, 0, ttlText},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parsed(c.body, RenewLease.body)
			checkText(t, err, c.wantErr)
			if got.TTL != c.ttl || c.wantErr == "" && got.LeaseID.String() != id {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestParsePoolID(t *testing.T) {
	const id = "3a7d0b14-9e2c-4f6a-8b1d-0c5e2f9a7b34"
	for _, c := range []struct{ name, body, wantErr string }{
		{"lower case", `{"id":"` + id + `"}`, ""},
		{"upper case", `{"id":"` + strings.ToUpper(id) + `","count":1}`, ""},
		{"missing", `{}`, idText},
		{"other case", `{"ID":"` + id + `"}`, idText},
		{"number", `{"id":1}`, idText},
		{"urn", `{"id":"urn:uuid:` + id + `"}`, idText},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parsed(c.body, laxly(), idField)
			checkText(t, err, c.wantErr)
			if c.wantErr == "" && got.Pool.String() != id {
				t.Errorf("id %v", got.Pool)
			}
		})
	}
}

// checkText fails unless err has exactly the text want, or is nil if want is "".
func checkText(t *testing.T, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("error %q, want %q", got, want)
	}
}
