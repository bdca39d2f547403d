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
		{"unseen", value(`,"unseen":true`), true},
		{"empty", ``, false},
	})
}

// namingCases are the fields of a named pool's slots and tickets, good and bad. Each
// case is given the incarnation that goes with it.
var namingCases = []struct {
	name, fields string
	incarnation  int
	valid        bool
}{
	{"no name", ``, 9, true},
	{"lock", `,"name":"x","limit":1,"lock":true`, 3, true},
	{"semaphore of one", `,"name":"x","limit":1`, 2, true},
	{"semaphore", `,"name":"x","limit":5,"nonce":"` + idB + `"`, 10, true},
	{"most slots", `,"name":"x","limit":65535`, 131070, true},
	{"longest name", `,"name":"` + strings.Repeat("x", MaxName) + `","limit":5`, 10, true},
	{"name too long", `,"name":"` + strings.Repeat("x", MaxName+1) + `","limit":5`, 10, false},
	{"name too long by a rune", `,"name":"` + strings.Repeat("x", MaxName-1) + `é","limit":5`, 10, false},
	{"no limit", `,"name":"x"`, 9, false},
	{"limit 0", `,"name":"x","limit":0`, 9, false},
	{"limit below 0", `,"name":"x","limit":-1`, 9, false},
	{"limit too high", `,"name":"x","limit":65536`, 131072, false},
	{"lock of two", `,"name":"x","limit":2,"lock":true`, 5, false},
	{"other limit than the incarnation's", `,"name":"x","limit":5`, 12, false},
	{"lock with a semaphore's incarnation", `,"name":"x","limit":1,"lock":true`, 2, false},
	{"semaphore with a lock's incarnation", `,"name":"x","limit":1`, 3, false},
	{"limit without a name", `,"limit":5`, 10, false},
	{"lock without a name", `,"lock":true`, 9, false},
	{"nonce without a name", `,"nonce":"` + idB + `"`, 9, false},
	{"name is no text", `,"name":7,"limit":5`, 10, false},
	{"nonce is no hash", `,"name":"x","limit":5,"nonce":"x"`, 10, false},
}

func TestNamingOfSlot(t *testing.T) {
	var cases []valueCase
	for _, c := range namingCases {
		cases = append(cases, valueCase{c.name, fmt.Sprintf(`{"lease":"%s","claimer":"%s","ttl_ms":1000,"inc":%d%s}`, idA, idB, c.incarnation, c.fields), c.valid})
	}
	testValues(t, "p."+idA+".s.0", cases)
}

func TestNamingOfTicket(t *testing.T) {
	var cases []valueCase
	for _, c := range namingCases {
		cases = append(cases, valueCase{c.name, fmt.Sprintf(`{"session":"%s","lease":"%s","wait_ms":1,"inc":%d%s}`, idB, idA, c.incarnation, c.fields), c.valid})
	}
	testValues(t, "p."+idA+".w."+idB+".0", cases)
}

// Two that do not agree have other terms, and terms are never 0, which stands
// for none.
func TestTerms(t *testing.T) {
	terms := map[uint64]Naming{0: {}}
	for _, n := range []Naming{
		{Name: "x", Limit: 1, Lock: true}, {Name: "x", Limit: 1}, {Name: "x", Limit: 2}, {Name: "x", Limit: 3}, {Name: "x", Limit: MaxLimit},
	} {
		if other, known := terms[n.Terms()]; known {
			t.Errorf("%+v and %+v have the same terms", n, other)
		}
		terms[n.Terms()] = n
	}
	if x, y := (Naming{Name: "x", Limit: 2}), (Naming{Name: "y", Limit: 2, Nonce: hash(t, idA)}); x.Terms() != y.Terms() {
		t.Error("the terms depend on more than the limit and the kind")
	}
}

func TestTicketValue(t *testing.T) {
	value := func(fields string, incarnation int) string {
		return fmt.Sprintf(`{"session":"%s","lease":"%s","wait_ms":1,"inc":%d%s}`, idB, idA, incarnation, fields)
	}
	testValues(t, "p."+idA+".w."+idB+".0", []valueCase{
		{"whole", `{"session":"` + idB + `","lease":"` + idA + `","inc":9,"wait_ms":1}`, true},
		{"no session", `{"lease":"` + idA + `","inc":9,"wait_ms":1}`, false},
		{"no lease", `{"session":"` + idB + `","inc":9,"wait_ms":1}`, false},
		{"no incarnation", `{"session":"` + idB + `","lease":"` + idA + `","wait_ms":1}`, false},
		{"no wait", `{"session":"` + idB + `","lease":"` + idA + `","inc":9}`, false},
		{"enqueued", value(`,"peer":"`+idA+`","ttl_ms":1000,"name":"x","limit":2`, 4), true},
		{"spent", value(`,"peer":"`+idA+`","ttl_ms":1000,"name":"x","limit":2,"spent":true`, 4), true},
		{"ttl of one who waits", value(`,"ttl_ms":1000,"name":"x","limit":2`, 4), true},
		{"enqueued without a name", value(`,"peer":"`+idA+`","ttl_ms":1000`, 4), false},
		{"enqueued without a ttl", value(`,"peer":"`+idA+`","name":"x","limit":2`, 4), false},
		{"enqueued, ttl 0", value(`,"peer":"`+idA+`","ttl_ms":0,"name":"x","limit":2`, 4), false},
		{"enqueued, ttl too long", value(`,"peer":"`+idA+`","ttl_ms":99999999999,"name":"x","limit":2`, 4), false},
		{"enqueued at nobody", value(`,"peer":"x","ttl_ms":1000,"name":"x","limit":2`, 4), false},
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
		"p." + idA + ".cfg": ConfigValue{Count: 3, Incarnation: 1<<64 - 1, Deleted: true},
		"p." + idA + ".s.1": SlotValue{
			Lease: a, Session: b, Claimer: b, Ticket: 5, Incarnation: 9, TTL: Span(time.Minute), Fence: 6, Label: "an \"odd\" label",
		},
		"p." + idA + ".w." + idB + ".0": TicketValue{Session: b, Lease: a, Incarnation: 9, Wait: Span(time.Second)},
		"p." + idA + ".s.2": SlotValue{
			Lease: a, Session: b, Claimer: b, Incarnation: 3, TTL: Span(time.Minute), Unseen: true,
			Naming: Naming{Name: "a \"name\"", Limit: 1, Lock: true, Nonce: a},
		},
		"p." + idA + ".w." + idB + ".1": TicketValue{
			Session: b, Lease: a, Incarnation: 10, Wait: Span(time.Second), TTL: Span(time.Minute), Peer: a, Spent: true,
			Naming: Naming{Name: "x", Limit: 5, Nonce: b},
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
	for _, field := range []string{"session", "ticket", "fence", "label", "name", "limit", "lock", "nonce", "unseen"} {
		if strings.Contains(string(data), field) {
			t.Errorf("%s stands in %s", field, data)
		}
	}
}

func TestTicketValueLeavesOutWhatIsNot(t *testing.T) {
	data, err := json.Marshal(TicketValue{Session: hash(t, idB), Lease: hash(t, idA), Incarnation: 1, Wait: Span(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"ttl_ms", "peer", "spent", "name", "limit", "lock", "nonce"} {
		if strings.Contains(string(data), field) {
			t.Errorf("%s stands in %s", field, data)
		}
	}
}

func TestSessionLeft(t *testing.T) {
	v := SessionValue{Idle: Span(15 * time.Second)}
	if v.Left() != 15*time.Second {
		t.Errorf("anew: %v", v.Left())
	}
	if v.Idled = Span(14 * time.Second); v.Left() != time.Second {
		t.Errorf("after 14 s: %v", v.Left())
	}
}
