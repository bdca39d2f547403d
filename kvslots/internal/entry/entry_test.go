package entry

import (
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

func headers(pairs ...string) Header {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return m[name] }
}

func TestParseMarker(t *testing.T) {
	slot := "p." + idA + ".s.3"
	const value = `{"count":2,"gen":9}`
	for name, c := range map[string]struct {
		header   Header
		previous uint64
	}{
		"purged":               {headers(HeaderOperation, "PURGE", HeaderExpected, "12"), 12},
		"deleted":              {headers(HeaderOperation, "DEL"), 0},
		"expired":              {headers(HeaderReason, "MaxAge"), 0},
		"purged by the server": {headers(HeaderReason, "Purge"), 0},
		"both":                 {headers(HeaderOperation, "PURGE", HeaderReason, "MaxAge"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			e := Parse(slot, 20, time.Unix(5, 0), c.header, []byte(value))
			want := Entry{
				Key: ParseKey(slot), Revision: 20, Time: time.Unix(5, 0), Marker: true,
				Previous: c.previous,
			}
			if !reflect.DeepEqual(e, want) {
				t.Errorf("got %+v, want %+v", e, want)
			}
		})
	}
}

func TestParsePrevious(t *testing.T) {
	for text, want := range map[string]uint64{
		"":                     0,
		"0":                    0,
		"1":                    1,
		"007":                  7,
		"1789000000000000":     1789000000000000,
		"9999999999999999999":  9999999999999999999,
		"18446744073709551616": 0,
		"-1":                   0,
		"+1":                   0,
		"1 ":                   0,
		"0x1":                  0,
		"1.0":                  0,
	} {
		e := Parse("n."+idA, 1, time.Time{}, headers(HeaderExpected, text), []byte(`{"kind":"peer","idle_ms":1}`))
		if e.Previous != want {
			t.Errorf("%q: got %d, want %d", text, e.Previous, want)
		}
	}
}

// A barrier has no expected revision, so its value names the previous barrier.
func TestParseBarrier(t *testing.T) {
	for data, want := range map[string]uint64{`{}`: 0, `{"prev":5}`: 5, `{"prev":-5}`: 0, `x`: 0, ``: 0} {
		e := Parse("b."+idA, 9, time.Time{}, headers(HeaderExpected, "3"), []byte(data))
		if e.Previous != want || e.Key.Kind != Barrier {
			t.Errorf("%s: got %+v", data, e)
		}
	}
	if e := Parse("b."+idA, 9, time.Time{}, none, []byte(`x`)); e.Corrupt == nil {
		t.Error("the value x was accepted")
	}
}

// A value begins with the write's author, and the end of earlier values. A purge may have a mark.
func TestParseStampAndMark(t *testing.T) {
	purge, slot, config := headers(HeaderOperation, "PURGE"), "p."+idB+".s.0", "p."+idB+".cfg"
	for _, c := range []struct {
		key    string
		header Header
		data   string
		want   Entry
	}{
		{slot, purge, `{"author":7,"outlives":8,"cause":"evicted","owner":"x","fence":9}`, Entry{Author: 7, Outlives: 8, Mark: Mark{Fenced: 9, Cause: Evicted, Owner: "x"}}},
		{slot, purge, `{"author":7}`, Entry{Author: 7}},
		{slot, purge, `{"fence":9}`, Entry{Mark: Mark{Fenced: 9}}},
		{slot, purge, `{"author":-7,"fence":9}`, Entry{}},
		{slot, purge, `{"author":7,"outlives":-8,"fence":9}`, Entry{}},
		{slot, purge, `{"author":7,"fence":9,"more":1}`, Entry{Author: 7}},
		{slot, purge, `{"owner":"` + strings.Repeat("x", MaxLabel+1) + `"}`, Entry{}},
		{slot, purge, "", Entry{}},
		{config, purge, `{"author":7,"origin":"` + idA + `"}`, Entry{Author: 7, Mark: Mark{Origin: Hash(ParseKey("n." + idA).Session)}}},
		{config, none, `{"author":7,"outlives":8,"count":2,"gen":9}`, Entry{Author: 7, Outlives: 8, Config: ConfigValue{Count: 2, Generation: 9}}},
		{config, none, `{"author":7,"cause":"expired","owner":"x","count":2,"gen":9}`, Entry{Author: 7, Config: ConfigValue{Count: 2, Generation: 9}}},
		{config, none, `{"count":2,"gen":9,"author":7}`, Entry{Config: ConfigValue{Count: 2, Generation: 9}}},
	} {
		e := Parse(c.key, 0, time.Time{}, c.header, []byte(c.data))
		if c.want.Key, c.want.Marker = e.Key, e.Marker; !reflect.DeepEqual(e, c.want) {
			t.Errorf("%s: got %+v, want %+v", c.data, e, c.want)
		}
	}
}

// A header says how long an entry lives.
func TestParseLife(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 0, "1s": time.Second, "610s": 610 * time.Second, "90": 0, "never": 0, "-1s": 0, "99999999999999s": 0,
	} {
		e := Parse("p."+idB+".s.0", 9, time.Time{}, headers(HeaderTTL, text), nil)
		if e.TTL != want {
			t.Errorf("%q: got %v", text, e.TTL)
		}
	}
}

// Parse reads back what Message.Headers and Message.Value write.
func TestMessage(t *testing.T) {
	purge := NewPurge(ParseKey("p."+idA+".s.3"), 5, 1500*time.Millisecond)
	purge.Cause, purge.Owner = Expired, "x"
	purge.Fenced = 9
	barrier := NewMessage(ParseKey("b."+idA), BarrierValue{}, 5, 2*time.Second)
	for m, mark := range map[*Message]Mark{&purge: {Fenced: 9, Cause: Expired, Owner: "x"}, &barrier: {}} {
		for _, stamp := range []uint64{0, 7} {
			m.Author, m.Outlives = stamp, int64(stamp)
			h := map[string]string{}
			m.Headers(func(name, value string) { h[name] = value })
			e := Parse(m.Key.String(), 9, time.Time{}, func(name string) string { return h[name] }, m.Value(nil))
			want := Entry{
				Key: m.Key, Revision: 9, Previous: e.Previous, Marker: m.Marker, TTL: 2 * time.Second,
				Outlives: m.Outlives, Author: m.Author, Mark: mark,
			}
			if !reflect.DeepEqual(e, want) {
				t.Errorf("got %+v, want %+v", e, want)
			}
		}
	}
}

func TestParseForeign(t *testing.T) {
	e := Parse("something.else", 9, time.Time{}, none, []byte(`{}`))
	if !errors.Is(e.Corrupt, errForeign) || e.Key != (Key{}) {
		t.Errorf("got %+v", e)
	}
	wantNoValue(t, e)
	if e = Parse("something.else", 9, time.Time{}, headers(HeaderOperation, "DEL"), nil); !e.Marker || e.Corrupt != nil {
		t.Errorf("its marker: got %+v", e)
	}
}

func FuzzParse(f *testing.F) {
	for _, key := range []string{"p." + idA + ".cfg", "p." + idA + ".s.0", "p." + idA + ".w." + idB + ".1", "n." + idA, "b." + idA, "x"} {
		f.Add(key, "", "", "5", "610s", []byte(`{"count":1,"gen":2,"lease":"`+idA+`","session":"`+idB+`","claimer":"`+idB+
			`","ttl_ms":1000,"wait_ms":5,"kind":"peer","idle_ms":7,"prev":3,"fence":4,"label":"x"}`))
		f.Add(key, "", "", "5", "610s", []byte(`{"gen":4,"lease":"`+idA+`","session":"`+idB+`","claimer":"`+idB+`","peer":"`+idA+
			`","ttl_ms":1000,"wait_ms":5,"kind":"client","idle_ms":7,"idled_ms":6,"origin":"`+idA+
			`","name":"x","limit":2,"nonce":"`+idB+`","unseen":true,"spent":true}`))
		f.Add(key, "", "", "", "never", []byte(`{"gen":3,"lease":"`+idA+`","session":"`+idB+
			`","ttl_ms":1000,"wait_ms":5,"kind":"client","idle_ms":7,"idled_ms":7,"name":"x","limit":1,"lock":true}`))
		f.Add(key, "PURGE", "expired", "5", "120s", []byte(nil))
		f.Add(key, "", "", "5", "610s", []byte(`{"count":3,"gen":2,"title":"screens","out":[{"n":-1},{"n":2,"reason":"broken"}]}`))
		f.Add(key, "", "", "5", "610s", []byte(`{"count":3,"gen":2,"out":[{"n":2},{"n":2}]}`))
		f.Add(key, "PURGE", "", "5", "120s", []byte(nil))
		f.Add(key, "PURGE", "", "5", "120s", []byte(`{"author":7,"outlives":8,"cause":"evicted","owner":"x","fence":9,"origin":"`+idA+`"}`))
		f.Add(key, "", "MaxAge", "", "2m0s", []byte(nil))
		f.Add(key, "", "", "x", "-1s", []byte(`{"count":1e9,"gen":-1,"ttl_ms":1e300,"lease":null}`))
	}
	f.Fuzz(func(t *testing.T, key, operation, reason, expected, ttl string, data []byte) {
		h := http.Header{}
		h[HeaderOperation], h[HeaderReason] = []string{operation}, []string{reason}
		h[HeaderExpected], h[HeaderTTL] = []string{expected}, []string{ttl}
		get := func(name string) string { return h[name][0] }
		e := Parse(key, 10, time.Unix(0, 0), get, data)
		if e.Marker != (operation != "" || reason != "") {
			t.Fatal("a marker was parsed as a value, or a value as a marker")
		}
		if e.Marker || e.Corrupt != nil {
			wantNoValue(t, e)
		}
		if e.Marker && e.Corrupt != nil {
			t.Fatal("a marker is corrupt")
		}
		if !e.Marker && e.Mark != (Mark{}) {
			t.Fatal("an entry that is no marker has a mark")
		}
		if e.Key.Kind == Foreign && !e.Marker && e.Corrupt == nil {
			t.Fatal("a foreign entry is not corrupt")
		}
		if e.TTL < 0 || e.TTL%time.Second != 0 {
			t.Fatalf("lives for %v", e.TTL)
		}
		wantOnlyItsOwnValue(t, e)
		wantInLimits(t, e)
	})
}

func wantOnlyItsOwnValue(t *testing.T, e Entry) {
	t.Helper()
	own := e
	switch e.Key.Kind {
	case Config:
		own.Config = ConfigValue{}
	case Slot:
		own.Slot = SlotValue{}
	case Ticket:
		own.Ticket = TicketValue{}
	case Session:
		own.Session = SessionValue{}
	}
	wantNoValue(t, own)
}

func wantInLimits(t *testing.T, e Entry) {
	t.Helper()
	if c := e.Config; c.Count < 0 || c.Count > MaxCount && !c.Named() || (!reflect.DeepEqual(c, ConfigValue{}) && c.Generation == 0) {
		t.Fatalf("config: %+v", c)
	}
	if s := e.Slot; len(s.Label) > MaxLabel || s.TTL < 0 || s.TTL > Span(MaxSpan) || (!reflect.DeepEqual(s, SlotValue{}) && (s.Lease.IsZero() || s.TTL == 0)) {
		t.Fatalf("slot: %+v", s)
	}
	wantTerms(t, e.Config)
	for position := WholePool; position < MaxCount; position++ {
		if out, is := e.Config.OutAt(position); is && (out.Position != position || len(out.Reason) > MaxLabel) {
			t.Fatalf("config: %+v", e.Config)
		}
	}
	if w := e.Ticket; w.Wait < 0 || w.Wait > Span(MaxSpan) || w.TTL < 0 || w.TTL > Span(MaxSpan) {
		t.Fatalf("ticket: %+v", w)
	}
	if s := e.Session; s.Idle < 0 || s.Idle > Span(MaxSpan) || s.Idled < 0 || (s != (SessionValue{}) && s.Left() <= 0) {
		t.Fatalf("session: %+v", s)
	}
}

func wantTerms(t *testing.T, c ConfigValue) {
	t.Helper()
	if n := c.Terms; n != (Terms{}) && (n.Name == "" || len(n.Name) > MaxName || n.Limit < 1 || n.Limit > MaxLimit || n.Lock && n.Limit != 1 || c.Count > n.Limit) {
		t.Fatalf("count %d of %+v", c.Count, n)
	}
}

// Fences grow although the leader's clock was set back.
func TestFence(t *testing.T) {
	for want, v := range map[uint64]SlotValue{
		1000: {After: 999},
		2001: {After: 2000},
		5:    {After: 2000, Fence: 5},
	} {
		e := Entry{Key: ParseKey("p." + idA + ".s.3"), Revision: 7, Time: time.UnixMicro(1000), Slot: v}
		if got := e.Fence(); got != want {
			t.Errorf("%+v has fence %d, want %d", v, got, want)
		}
	}
}
