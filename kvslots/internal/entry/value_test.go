package entry

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestSpan(t *testing.T) {
	year := MaxSpan.Milliseconds()
	for text, want := range map[string]time.Duration{
		"1":                   time.Millisecond,
		"1500":                1500 * time.Millisecond,
		fmt.Sprint(year):      MaxSpan,
		fmt.Sprint(year + 1):  0,
		"0":                   0,
		"-1":                  0,
		"1.5":                 0,
		"1e3":                 0,
		`"1"`:                 0,
		"null":                0,
		"true":                0,
		"9223372036854775808": 0,
	} {
		t.Run(text, func(t *testing.T) {
			var s Span
			err := json.Unmarshal([]byte(text), &s)
			if (err == nil) != (want != 0) || time.Duration(s) != want {
				t.Errorf("got %v, %v; want %v", time.Duration(s), err, want)
			}
		})
	}
	if text, err := json.Marshal(Span(1500*time.Millisecond + time.Microsecond)); err != nil || string(text) != "1500" {
		t.Errorf("written as %s, %v", text, err)
	}
}

// valueCase is a value of the bucket with what Parse is to make of it.
type valueCase struct {
	name, data string
	valid      bool
}

func testValues(t *testing.T, key string, cases []valueCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e := Parse(key, 7, time.Time{}, none, []byte(c.data))
			if (e.Corrupt == nil) != c.valid {
				t.Fatalf("corrupt: %v", e.Corrupt)
			}
			if e.Marker || e.Revision != 7 || e.Key != ParseKey(key) {
				t.Errorf("got %+v", e)
			}
			if !c.valid {
				wantNoValue(t, e)
			}
		})
	}
}

func none(string) string { return "" }

func wantNoValue(t testing.TB, e Entry) {
	t.Helper()
	if e.Config != (ConfigValue{}) || e.Slot != (SlotValue{}) || e.Wait != (TicketValue{}) || e.Session != (SessionValue{}) {
		t.Errorf("there is a value: %+v", e)
	}
}

func TestConfigValue(t *testing.T) {
	testValues(t, "p."+idA+".cfg", []valueCase{
		{"registered", `{"count":2,"inc":9}`, true},
		{"no slots", `{"count":0,"inc":9}`, true},
		{"most slots", `{"count":1000,"inc":9}`, true},
		{"largest incarnation", `{"count":1,"inc":18446744073709551615}`, true},
		{"deleted", `{"count":2,"inc":9,"deleted":true}`, true},
		{"a field of a later version", `{"count":2,"inc":9,"more":1}`, true},
		{"too many slots", `{"count":1001,"inc":9}`, false},
		{"negative", `{"count":-1,"inc":9}`, false},
		{"fraction", `{"count":1.5,"inc":9}`, false},
		{"string", `{"count":"1","inc":9}`, false},
		{"no incarnation", `{"count":2}`, false},
		{"incarnation too large", `{"count":2,"inc":18446744073709551616}`, false},
		{"empty", ``, false},
		{"null", `null`, false},
		{"array", `[]`, false},
		{"half", `{"count":2,"inc":9`, false},
		{"two", `{"count":2,"inc":9}{}`, false},
	})
}

func TestSlotValue(t *testing.T) {
	value := func(fields string) string {
		return `{"lease":"` + idA + `","claimer":"` + idB + `","inc":9,"ttl_ms":1000` + fields + `}`
	}
	testValues(t, "p."+idA+".s.0", []valueCase{
		{"first write", value(``), true},
		{"renewed", value(`,"fence":3,"ticket":2,"session":"` + idB + `"`), true},
		{"longest label", value(`,"label":"` + strings.Repeat("x", MaxLabel) + `"`), true},
		{"label too long", value(`,"label":"` + strings.Repeat("x", MaxLabel+1) + `"`), false},
		{"no lease", `{"claimer":"` + idB + `","inc":9,"ttl_ms":1000}`, false},
		{"zero lease", `{"lease":"` + strings.Repeat("0", 32) + `","inc":9,"ttl_ms":1000}`, false},
		{"lease not a hash", `{"lease":"x","inc":9,"ttl_ms":1000}`, false},
		{"no incarnation", `{"lease":"` + idA + `","ttl_ms":1000}`, false},
		{"no ttl", `{"lease":"` + idA + `","inc":9}`, false},
		{"null ttl", `{"lease":"` + idA + `","inc":9,"ttl_ms":null}`, false},
		{"ttl too long", `{"lease":"` + idA + `","inc":9,"ttl_ms":99999999999}`, false},
		{"negative fence", value(`,"fence":-1`), false},
		{"empty", ``, false},
	})
}

func TestTicketValue(t *testing.T) {
	testValues(t, "p."+idA+".w."+idB+".0", []valueCase{
		{"whole", `{"session":"` + idB + `","lease":"` + idA + `","inc":9,"wait_ms":1}`, true},
		{"no session", `{"lease":"` + idA + `","inc":9,"wait_ms":1}`, false},
		{"no lease", `{"session":"` + idB + `","inc":9,"wait_ms":1}`, false},
		{"no incarnation", `{"session":"` + idB + `","lease":"` + idA + `","wait_ms":1}`, false},
		{"no wait", `{"session":"` + idB + `","lease":"` + idA + `","inc":9}`, false},
		{"empty", ``, false},
	})
}

func TestSessionValue(t *testing.T) {
	testValues(t, "n."+idA, []valueCase{
		{"peer", `{"kind":"peer","idle_ms":15000}`, true},
		{"unknown kind", `{"kind":"x","idle_ms":15000}`, false},
		{"no kind", `{"idle_ms":15000}`, false},
		{"no idle time", `{"kind":"peer"}`, false},
		{"empty", ``, false},
	})
}

func TestValuesRoundTrip(t *testing.T) {
	a, b := hash(t, idA), hash(t, idB)
	for key, value := range map[string]any{
		"p." + idA + ".cfg": ConfigValue{Count: 3, Incarnation: 1<<64 - 1, Deleted: true},
		"p." + idA + ".s.1": SlotValue{
			Lease: a, Session: b, Claimer: b, Ticket: 5, Incarnation: 9, TTL: Span(time.Minute), Fence: 6, Label: "an \"odd\" label",
		},
		"p." + idA + ".w." + idB + ".0": TicketValue{Session: b, Lease: a, Incarnation: 9, Wait: Span(time.Second)},
		"n." + idB:                      SessionValue{Kind: SessionPeer, Idle: Span(time.Second)},
	} {
		data, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		e := Parse(key, 1, time.Time{}, none, data)
		if e.Corrupt != nil {
			t.Errorf("%s: %v", data, e.Corrupt)
		}
		if got := map[Kind]any{Config: e.Config, Slot: e.Slot, Ticket: e.Wait, Session: e.Session}[e.Key.Kind]; got != value {
			t.Errorf("%s: got %+v, want %+v", key, got, value)
		}
	}
}

// A zero session must not be written, for it would be sixteen zero bytes of
// every slot in the bucket.
func TestSlotValueLeavesOutWhatIsNot(t *testing.T) {
	data, err := json.Marshal(SlotValue{Lease: hash(t, idA), Incarnation: 1, TTL: Span(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"session", "ticket", "fence", "label"} {
		if strings.Contains(string(data), field) {
			t.Errorf("%s stands in %s", field, data)
		}
	}
}
