package entry

import (
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const (
	idA = "0123456789abcdef0123456789abcdef"
	idB = "ffffffffffffffffffffffffffffffff"
)

func hash(t testing.TB, text string) Hash {
	t.Helper()
	h, ok := parseHash(text)
	if !ok {
		t.Fatalf("%q is not a hash", text)
	}
	return h
}

func TestParseKey(t *testing.T) {
	a, b := hash(t, idA), hash(t, idB)
	max := strconv.Itoa(MaxPosition)
	for text, want := range map[string]Key{
		"p." + idA + ".cfg":                  {Kind: Config, Pool: a},
		"p." + idA + ".s.0":                  {Kind: Slot, Pool: a},
		"p." + idA + ".s.10":                 {Kind: Slot, Pool: a, N: 10},
		"p." + idA + ".s." + max:             {Kind: Slot, Pool: a, N: MaxPosition},
		"p." + idA + ".w." + idB + ".0":      {Kind: Ticket, Pool: a, Session: b},
		"p." + idA + ".w." + idB + "." + max: {Kind: Ticket, Pool: a, Session: b, N: MaxPosition},
		"n." + idB:                           {Kind: Session, Session: b},
		"b." + idB:                           {Kind: Barrier, Session: b},
	} {
		t.Run(text, func(t *testing.T) {
			got := ParseKey(text)
			if got != want {
				t.Fatalf("got %+v, want %+v", got, want)
			}
			if got.String() != text {
				t.Errorf("written again it is %q", got.String())
			}
		})
	}
}

// With two spellings, one slot would have two keys, and could be lent twice.
func TestParseKeyAcceptsOneSpelling(t *testing.T) {
	for name, text := range map[string]string{
		"empty":               "",
		"one token":           "p",
		"unknown kind":        "q." + idA,
		"capital kind":        "N." + idA,
		"pool only":           "p." + idA,
		"pool and dot":        "p." + idA + ".",
		"something after cfg": "p." + idA + ".cfg.0",
		"unknown pool key":    "p." + idA + ".x.0",
		"short hash":          "n." + idA[1:],
		"long hash":           "n." + idA + "0",
		"capital hash":        "n." + strings.ToUpper(idA),
		"no hash":             "n.",
		"hash not hex":        "n." + idA[:31] + "g",
		"after a session":     "n." + idA + ".0",
		"after a barrier":     "b." + idA + ".0",
		"no position":         "p." + idA + ".s.",
		"leading zero":        "p." + idA + ".s.00",
		"leading zeros":       "p." + idA + ".s.007",
		"plus":                "p." + idA + ".s.+1",
		"minus":               "p." + idA + ".s.-1",
		"space":               "p." + idA + ".s. 1",
		"hexadecimal":         "p." + idA + ".s.0x1",
		"other digits":        "p." + idA + ".s.١",
		"too high":            "p." + idA + ".s." + strconv.Itoa(MaxPosition+1),
		"far too high":        "p." + idA + ".s.18446744073709551616",
		"after a position":    "p." + idA + ".s.1.2",
		"ticket, no number":   "p." + idA + ".w." + idB,
		"ticket, no session":  "p." + idA + ".w..0",
		"ticket, more":        "p." + idA + ".w." + idB + ".0.0",
		"space before":        " n." + idA,
		"NUL behind":          "n." + idA + "\x00",
	} {
		t.Run(name, func(t *testing.T) {
			if got := ParseKey(text); got != (Key{}) {
				t.Errorf("%q was parsed as %+v, want Foreign", text, got)
			}
		})
	}
}

func TestForeignKeyIsEmptyText(t *testing.T) {
	if got := (Key{}).String(); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestKeyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := Key{Kind: Kind(rapid.IntRange(int(Config), int(Barrier)).Draw(t, "kind"))}
		if k.Kind == Config || k.Kind == Slot || k.Kind == Ticket {
			k.Pool = drawHash(t, "pool")
		}
		if k.Kind == Ticket || k.Kind == Session || k.Kind == Barrier {
			k.Session = drawHash(t, "session")
		}
		if k.Kind == Slot || k.Kind == Ticket {
			k.N = rapid.IntRange(0, MaxPosition).Draw(t, "n")
		}
		if got := ParseKey(k.String()); got != k {
			t.Fatalf("%q was read as %+v, not %+v", k, got, k)
		}
	})
}

func drawHash(t *rapid.T, label string) Hash {
	return Hash(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, label))
}

func FuzzParseKey(f *testing.F) {
	for _, text := range []string{
		"", "p." + idA + ".cfg", "p." + idA + ".s.7", "p." + idA + ".s.07", "p." + idA + ".w." + idB + ".12",
		"n." + idA, "b." + idA, "p..s.0", "n." + strings.ToUpper(idA),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		k := ParseKey(text)
		if k.Kind == Foreign {
			if k != (Key{}) {
				t.Fatalf("%q is foreign, but has fields: %+v", text, k)
			}
			return
		}
		if k.String() != text {
			t.Fatalf("%q has another spelling, %q", text, k.String())
		}
	})
}

// With 65,700 waiters of one peer in one pool, the number of a ticket was read back as 16 bits,
// and its entry was foreign.
func TestManyTickets(t *testing.T) {
	for _, n := range []int{65535, 65536, 1<<31 - 1} {
		key := Key{Kind: Ticket, Pool: HashOf(OfPool, "p"), Session: HashOf(OfSession, "s"), N: n}
		if got := ParseKey(key.String()); got != key {
			t.Errorf("ticket %d is read as %+v", n, got)
		}
	}
	slot := Key{Kind: Slot, Pool: HashOf(OfPool, "p"), N: MaxPosition + 1}
	if got := ParseKey(slot.String()); got.Kind != Foreign {
		t.Errorf("position %d is read as %+v", slot.N, got)
	}
}
