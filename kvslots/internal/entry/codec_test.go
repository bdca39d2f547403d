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
	if r.IntN(2) == 0 {
		v.Origin = hash()
	}
	if v.Known = r.IntN(3) == 0; r.IntN(3) == 0 {
		v.Answers = []uint64{r.Uint64(), r.Uint64()}
	}
	return v
}

// A slot's value is encoded as encoding/json encodes it.
func TestSlotEncoding(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	key := ParseKey("p." + idA + ".s.3")
	for range 5000 {
		v := randomSlot(r)
		m := wantEncoded(t, r, key, v)
		wantRead(t, m.Value(nil), stamped(decodeSlot))
		for range 3 { // a little wrong
			wantRead(t, mangled(r, m.Value(nil)), stamped(decodeSlot))
		}
	}
}

// A ticket's value is encoded as encoding/json encodes it.
func TestTicketEncoding(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	key := ParseKey("p." + idA + ".w." + idB + ".3")
	for range 3000 {
		slot := randomSlot(r)
		v := TicketValue{
			Lease: slot.Lease, Generation: slot.Generation, Wait: slot.TTL, Place: slot.Ticket,
			Peer: slot.Session, Nonce: slot.Nonce, Spent: slot.Unseen, Origin: slot.Origin, Label: slot.Label,
		}
		if r.IntN(2) == 0 {
			v.TTL, v.Grace, v.Away, v.Session = randomSlot(r).TTL, randomSlot(r).TTL, slot.Unseen, slot.Nonce
		}
		m := wantEncoded(t, r, key, v)
		wantRead(t, m.Value(nil), stamped(decodeTicket))
		for range 3 { // a little wrong
			wantRead(t, mangled(r, m.Value(nil)), stamped(decodeTicket))
		}
	}
}

// wantEncoded returns a message with a value, which must be encoded as encoding/json does.
func wantEncoded(t *testing.T, r *rand.Rand, key Key, v any) Message {
	t.Helper()
	want, err := encode(v)
	if err != nil {
		t.Fatal(err)
	}
	m := NewMessage(key, v, r.Uint64N(5), time.Duration(r.Int64N(int64(MaxSpan))))
	if string(m.Data) != string(want) {
		t.Fatalf("%+v is written as\n%s, want\n%s", v, m.Data, want)
	}
	m.Author, m.Outlives = r.Uint64N(2)*r.Uint64()>>11, r.Int64N(2)*1795218878144
	return m
}

// stamped returns a decoder of values with their stamps.
func stamped[V any](decoder func(codec, []byte) (V, error)) func([]byte) (V, error) {
	return func(data []byte) (V, error) {
		c := codec{data: data, reading: true}
		c.stamp(new(uint64), new(int64))
		return decoder(c, data)
	}
}

// wantRead compares what a decoder and encoding/json return.
func wantRead[V any, P checked[V]](t *testing.T, data []byte, decoder func([]byte) (V, error)) {
	t.Helper()
	want, failed := decode[V, P](data)
	got, err := decoder(data)
	if !reflect.DeepEqual(got, want) || (err == nil) != (failed == nil) {
		t.Fatalf("%s is read as %+v, %v; want %+v, %v", data, got, err, want, failed)
	}
}

func TestSlotWithATTLThatOverflows(t *testing.T) {
	v, _ := json.Marshal(SlotValue{Lease: HashOf("lease", "x"), Claimer: HashOf("x", "y"), Generation: 1, TTL: Span(time.Second)})
	for _, ms := range []string{"9223372036854", "9223372036855", "18446744073710", "9999999999999999999", "18446744073709551617"} {
		wantRead(t, []byte(strings.Replace(string(v), `_ms":1000`, `_ms":`+ms, 1)), stamped(decodeSlot))
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
