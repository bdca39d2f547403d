package entry

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// randomSlot returns a value in which each optional field may be set.
func randomSlot(r *rand.Rand) SlotValue {
	hash := func() (h Hash) {
		for i := range h {
			h[i] = byte(r.Uint32())
		}
		return h
	}
	texts := []string{"", "job 7", "~", `"`, "\\", "<a&b>", "é", "\xff", "\n", strings.Repeat("x", MaxLabel), strings.Repeat("x", MaxLabel+1)}
	v := SlotValue{
		Lease: hash(), Claimer: hash(), Generation: r.Uint64() >> r.IntN(64), Unseen: r.IntN(2) == 0,
		TTL: Span(r.Int64N(int64(2*MaxSpan))) >> r.IntN(40), Label: texts[r.IntN(len(texts))], Owner: texts[r.IntN(len(texts))],
	}
	if r.IntN(2) == 0 {
		v.Session, v.Ticket = hash(), r.Uint64()
	}
	if r.IntN(2) == 0 {
		v.Nonce, v.Fence = hash(), r.Uint64()
	}
	return v
}

// A slot's value is encoded as encoding/json encodes it, and Message.Entry returns what
// Parse returns.
func TestSlotEncoding(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	key, plain := ParseKey("p."+idA+".s.3"), 0
	for range 5000 {
		v := randomSlot(r)
		m := wantEncoded(t, r, key, v)
		if wantOwnEntry(t, m) {
			plain++
		}
		wantSlotRead(t, m.Data)
		for range 3 { // a little wrong
			wantSlotRead(t, mangled(r, m.Data))
		}
	}
	if plain < 500 {
		t.Errorf("only %d values were plain", plain)
	}
}

// A ticket's value is encoded as encoding/json encodes it, and Message.Entry returns what
// Parse returns.
func TestTicketEncoding(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	key, known := ParseKey("p."+idA+".w."+idB+".3"), 0
	for range 3000 {
		slot := randomSlot(r)
		v := TicketValue{
			Lease: slot.Lease, Generation: slot.Generation, Wait: slot.TTL, Place: slot.Ticket,
			Peer: slot.Session, Nonce: slot.Nonce, Spent: slot.Unseen,
		}
		if r.IntN(2) == 0 {
			v.TTL = randomSlot(r).TTL
		}
		m := wantEncoded(t, r, key, v)
		if wantOwnEntry(t, m) {
			known++
		}
	}
	if known < 500 {
		t.Errorf("Entry was ok for %d tickets only", known)
	}
}

// wantEncoded returns a message with a value, which must be encoded as encoding/json does.
func wantEncoded(t *testing.T, r *rand.Rand, key Key, v any) Message {
	t.Helper()
	want, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	m := NewMessage(key, v, r.Uint64N(5), time.Duration(r.Int64N(int64(MaxSpan))))
	if string(m.Data) != string(want) {
		t.Fatalf("%+v is written as\n%s, want\n%s", v, m.Data, want)
	}
	return m
}

// wantOwnEntry compares what Message.Entry and Parse return. It reports whether
// Message.Entry was ok.
func wantOwnEntry(t *testing.T, m Message) bool {
	t.Helper()
	header := map[string]string{}
	m.Headers(func(name, value string) { header[name] = value })
	want := Parse(m.Key.String(), 9, time.Time{}, func(name string) string { return header[name] }, m.Data)
	got, ok := m.Entry(9)
	if ok && !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	return ok
}

func TestMessageEntryOfMarker(t *testing.T) {
	slot := ParseKey("p." + idA + ".s.3")
	served := NewPurge(slot, 5, 1500*time.Millisecond)
	served.Served, served.Author, served.Owner, served.Outlives = 4, 7, "x", 1795218878144
	owner := NewPurge(slot, 5, time.Minute)
	owner.Owner = strings.Repeat("x", MaxLabel+1)
	for name, c := range map[string]struct {
		m  Message
		ok bool
	}{
		"plain":               {NewPurge(slot, 5, time.Minute), true},
		"absent before":       {NewPurge(slot, 0, time.Minute), true},
		"every header":        {served, true},
		"owner too long":      {owner, false},
		"not of a slot":       {NewPurge(ParseKey("n."+idA), 5, time.Minute), false},
		"a configuration":     {NewMessage(ParseKey("p."+idA+".cfg"), ConfigValue{Count: 1, Generation: 1}, 5, 0), false},
		"a value not decoded": {Message{Key: slot, Data: []byte(`{}`), Revision: 5}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := wantOwnEntry(t, c.m); got != c.ok {
				t.Errorf("ok %t, want %t", got, c.ok)
			}
		})
	}
}

// wantSlotRead compares what decodeSlot and encoding/json return.
func wantSlotRead(t *testing.T, data []byte) {
	t.Helper()
	want, failed := decode[SlotValue](data)
	got, err := decodeSlot(data)
	if got != want || (err == nil) != (failed == nil) {
		t.Fatalf("%s is read as %+v, %v; want %+v, %v", data, got, err, want, failed)
	}
}

func TestSlotWithATTLThatOverflows(t *testing.T) {
	v, _ := json.Marshal(SlotValue{Lease: HashOf("lease", "x"), Claimer: HashOf("x", "y"), Generation: 1, TTL: Span(time.Second)})
	for _, ms := range []string{"9223372036854", "9223372036855", "18446744073710", "9999999999999999999", "18446744073709551617"} {
		wantSlotRead(t, []byte(strings.Replace(string(v), `_ms":1000`, `_ms":`+ms, 1)))
	}
}

// mangled returns data with one byte changed, removed or doubled.
func mangled(r *rand.Rand, data []byte) []byte {
	i := r.IntN(len(data))
	switch r.IntN(3) {
	case 0:
		const bytes = `09af"},: -x`
		b := slices.Clone(data)
		b[i] = bytes[r.IntN(len(bytes))]
		return b
	case 1:
		return slices.Concat(data[:i], data[i+1:])
	default:
		return slices.Concat(data[:i], data[i:i+1], data[i:])
	}
}
