package entry

import (
	"encoding/json"
	"fmt"
	"reflect"
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

// valueCase is an encoded value; valid is false if it is corrupt.
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
	if !reflect.DeepEqual(e.Config, ConfigValue{}) || !reflect.DeepEqual(e.Slot, SlotValue{}) || e.Ticket != (TicketValue{}) || e.Session != (SessionValue{}) {
		t.Errorf("a corrupt entry has a value: %+v", e)
	}
}

func TestConfigValue(t *testing.T) {
	testValues(t, "p."+idA+".cfg", []valueCase{
		{"registered", `{"count":2,"gen":9}`, true},
		{"no slots", `{"count":0,"gen":9}`, true},
		{"most slots", `{"count":1000,"gen":9}`, true},
		{"largest generation", `{"count":1,"gen":18446744073709551615}`, true},
		{"a field of a later version", `{"count":2,"gen":9,"more":1}`, true},
		{"too many slots", `{"count":1001,"gen":9}`, false},
		{"negative", `{"count":-1,"gen":9}`, false},
		{"fraction", `{"count":1.5,"gen":9}`, false},
		{"string", `{"count":"1","gen":9}`, false},
		{"no generation", `{"count":2}`, false},
		{"generation too large", `{"count":2,"gen":18446744073709551616}`, false},
		{"empty", ``, false},
		{"null", `null`, false},
		{"array", `[]`, false},
		{"half", `{"count":2,"gen":9`, false},
		{"two", `{"count":2,"gen":9}{}`, false},
	})
}

func TestSlotValue(t *testing.T) {
	value := func(fields string) string {
		return `{"lease":"` + idA + `","claimer":"` + idB + `","gen":9,"ttl_ms":1000` + fields + `}`
	}
	testValues(t, "p."+idA+".s.0", []valueCase{
		{"first write", value(``), true},
		{"renewed", value(`,"fence":3,"ticket":2,"session":"` + idB + `"`), true},
		{"longest label", value(`,"label":"` + strings.Repeat("x", MaxLabel) + `"`), true},
		{"label too long", value(`,"label":"` + strings.Repeat("x", MaxLabel+1) + `"`), false},
		{"no lease", `{"claimer":"` + idB + `","gen":9,"ttl_ms":1000}`, false},
		{"zero lease", `{"lease":"` + strings.Repeat("0", 32) + `","gen":9,"ttl_ms":1000}`, false},
		{"lease not a hash", `{"lease":"x","gen":9,"ttl_ms":1000}`, false},
		{"no generation", `{"lease":"` + idA + `","ttl_ms":1000}`, false},
		{"no ttl", `{"lease":"` + idA + `","gen":9}`, false},
		{"null ttl", `{"lease":"` + idA + `","gen":9,"ttl_ms":null}`, false},
		{"ttl too long", `{"lease":"` + idA + `","gen":9,"ttl_ms":99999999999}`, false},
		{"negative fence", value(`,"fence":-1`), false},
		{"unseen", value(`,"unseen":true`), true},
		{"empty", ``, false},
	})
}

func TestTerms(t *testing.T) {
	config := func(fields string) string { return `{"count":1,"gen":9` + fields + `}` }
	testValues(t, "p."+idA+".cfg", []valueCase{
		{"lock", config(`,"name":"x","limit":1,"lock":true`), true},
		{"semaphore of one", config(`,"name":"x","limit":1`), true},
		{"semaphore", config(`,"name":"x","limit":5,"dialect":"d"`), true},
		{"closing", `{"count":0,"gen":9,"name":"x","limit":5}`, true},
		{"most slots", `{"count":65535,"gen":9,"name":"x","limit":65535}`, true},
		{"more slots than the limit", `{"count":6,"gen":9,"name":"x","limit":5}`, false},
		{"longest name", config(`,"name":"` + strings.Repeat("x", MaxName) + `","limit":5`), true},
		{"name too long", config(`,"name":"` + strings.Repeat("x", MaxName+1) + `","limit":5`), false},
		{"name too long by a rune", config(`,"name":"` + strings.Repeat("x", MaxName-1) + `é","limit":5`), false},
		{"no limit", config(`,"name":"x"`), false},
		{"limit 0", config(`,"name":"x","limit":0`), false},
		{"limit below 0", config(`,"name":"x","limit":-1`), false},
		{"limit too high", config(`,"name":"x","limit":65536`), false},
		{"lock of two", config(`,"name":"x","limit":2,"lock":true`), false},
		{"limit without a name", config(`,"limit":5`), false},
		{"lock without a name", config(`,"lock":true`), false},
		{"dialect without a name", config(`,"dialect":"d"`), false},
		{"name is no text", config(`,"name":7,"limit":5`), false},
	})
}

func TestTicketValue(t *testing.T) {
	value := func(fields string) string { return `{"lease":"` + idA + `","wait_ms":1,"gen":9` + fields + `}` }
	testValues(t, "p."+idA+".w."+idB+".0", []valueCase{
		{"whole", value(``), true},
		{"no lease", `{"gen":9,"wait_ms":1}`, false},
		{"no generation", `{"lease":"` + idA + `","wait_ms":1}`, false},
		{"no wait", `{"lease":"` + idA + `","gen":9}`, false},
		{"of a session", value(`,"peer":"` + idA + `"`), true},
		{"enqueued", value(`,"peer":"` + idA + `","ttl_ms":1000,"nonce":"` + idB + `"`), true},
		{"spent", value(`,"peer":"` + idA + `","ttl_ms":1000,"spent":true`), true},
		{"written again", value(`,"place":7`), true},
		{"place below 0", value(`,"place":-7`), false},
		{"enqueued, ttl 0", value(`,"peer":"` + idA + `","ttl_ms":0`), false},
		{"enqueued, ttl too long", value(`,"peer":"` + idA + `","ttl_ms":99999999999`), false},
		{"peer is no hash", value(`,"peer":"x","ttl_ms":1000`), false},
		{"nonce is no hash", value(`,"nonce":"x"`), false},
		{"empty", ``, false},
	})
}

func TestSessionValue(t *testing.T) {
	testValues(t, "n."+idA, []valueCase{
		{"peer", `{"kind":"peer","idle_ms":15000}`, true},
		{"client", `{"kind":"client","idle_ms":15000,"origin":"` + idB + `"}`, true},
		{"idle for some of it", `{"kind":"client","idle_ms":15000,"idled_ms":14999}`, true},
		{"idle for all of it", `{"kind":"client","idle_ms":15000,"idled_ms":15000}`, false},
		{"idle for longer", `{"kind":"client","idle_ms":15000,"idled_ms":15001}`, false},
		{"idle for less than nothing", `{"kind":"client","idle_ms":15000,"idled_ms":-1}`, false},
		{"origin is no hash", `{"kind":"client","idle_ms":15000,"origin":"x"}`, false},
		{"unknown kind", `{"kind":"x","idle_ms":15000}`, false},
		{"no kind", `{"idle_ms":15000}`, false},
		{"no idle time", `{"kind":"peer"}`, false},
		{"empty", ``, false},
	})
}

func TestValuesRoundTrip(t *testing.T) {
	a, b := hash(t, idA), hash(t, idB)
	for key, value := range map[string]any{
		"p." + idA + ".cfg": ConfigValue{Count: 3, Generation: 1<<64 - 1, Closing: true},
		"p." + idB + ".cfg": ConfigValue{Count: 3, Generation: 1, Terms: Terms{Name: "a \"name\"", Dialect: "d", Limit: 5}},
		"p." + idA + ".s.1": SlotValue{
			Lease: a, Session: b, Claimer: b, Ticket: 5, Generation: 9, TTL: Span(time.Minute), Fence: 6, Label: "an \"odd\" label",
		},
		"p." + idA + ".w." + idB + ".0": TicketValue{Lease: a, Generation: 9, Wait: Span(time.Second)},
		"p." + idA + ".s.2": SlotValue{
			Lease: a, Claimer: b, Generation: 3, TTL: Span(time.Minute), Unseen: true, Owner: "an \"owner\"", Nonce: a,
		},
		"p." + idA + ".w." + idB + ".1": TicketValue{
			Lease: a, Generation: 10, Wait: Span(time.Second), TTL: Span(time.Minute), Peer: a, Spent: true, Place: 3, Nonce: b,
		},
		"n." + idB: SessionValue{Kind: SessionPeer, Idle: Span(time.Second)},
		"n." + idA: SessionValue{Kind: SessionClient, Idle: Span(time.Second), Idled: Span(time.Millisecond), Origin: b},
	} {
		data, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		e := Parse(key, 1, time.Time{}, none, data)
		if e.Corrupt != nil {
			t.Errorf("%s: %v", data, e.Corrupt)
		}
		if got := map[Kind]any{Config: e.Config, Slot: e.Slot, Ticket: e.Ticket, Session: e.Session}[e.Key.Kind]; !reflect.DeepEqual(got, value) {
			t.Errorf("%s: got %+v, want %+v", key, got, value)
		}
	}
}

// The encoding omits zero fields: a zero session would be sixteen zero bytes in
// every slot of the bucket.
func TestSlotValueOmitsZeroFields(t *testing.T) {
	data, err := json.Marshal(SlotValue{Lease: hash(t, idA), Generation: 1, TTL: Span(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"session", "ticket", "fence", "label", "owner", "nonce", "unseen"} {
		if strings.Contains(string(data), field) {
			t.Errorf("%s is in %s", field, data)
		}
	}
}

func TestTicketValueOmitsZeroFields(t *testing.T) {
	data, err := json.Marshal(TicketValue{Lease: hash(t, idA), Generation: 1, Wait: Span(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"ttl_ms", "peer", "spent", "place", "nonce"} {
		if strings.Contains(string(data), field) {
			t.Errorf("%s is in %s", field, data)
		}
	}
}

func TestSessionLeft(t *testing.T) {
	v := SessionValue{Idle: Span(15 * time.Second)}
	if v.Left() != 15*time.Second {
		t.Errorf("new: %v", v.Left())
	}
	if v.Idled = Span(14 * time.Second); v.Left() != time.Second {
		t.Errorf("after 14 s: %v", v.Left())
	}
}
