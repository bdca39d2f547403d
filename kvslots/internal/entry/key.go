package entry

import (
	"strconv"
	"strings"
)

// MaxPosition is the highest position that a slot's key may carry.
const MaxPosition = 1<<16 - 1

// Kind says what a key of the bucket is for.
type Kind uint8

// The kinds of keys; Foreign is any key that is not one of ours.
const (
	Foreign Kind = iota
	Config       // p.<pool>.cfg
	Slot         // p.<pool>.s.<position>
	Ticket       // p.<pool>.w.<author>.<n>
	Session      // n.<session>
	Barrier      // b.<session>
)

// Key is a key of the bucket, taken apart. It is comparable.
type Key struct {
	Kind    Kind
	Pool    Hash // Config, Slot, Ticket
	Session Hash // Ticket, Session, Barrier
	N       int  // a slot's position, a ticket's number
}

// String is the key as it stands in the bucket.
func (k Key) String() string {
	switch k.Kind {
	case Config:
		return "p." + k.Pool.String() + ".cfg"
	case Slot:
		return "p." + k.Pool.String() + ".s." + strconv.Itoa(k.N)
	case Ticket:
		return "p." + k.Pool.String() + ".w." + k.Session.String() + "." + strconv.Itoa(k.N)
	case Session:
		return "n." + k.Session.String()
	case Barrier:
		return "b." + k.Session.String()
	}
	return ""
}

// ParseKey takes a key apart. A key that String would not have written is
// Foreign.
func ParseKey(text string) Key {
	kind, rest, _ := strings.Cut(text, ".")
	switch kind {
	case "p":
		return parsePoolKey(rest)
	case "n":
		return parseSessionKey(Session, rest)
	case "b":
		return parseSessionKey(Barrier, rest)
	}
	return Key{}
}

func parseSessionKey(kind Kind, text string) Key {
	id, ok := parseHash(text)
	if !ok {
		return Key{}
	}
	return Key{Kind: kind, Session: id}
}

func parsePoolKey(text string) Key {
	id, rest, _ := strings.Cut(text, ".")
	pool, ok := parseHash(id)
	if !ok {
		return Key{}
	}
	if rest == "cfg" {
		return Key{Kind: Config, Pool: pool}
	}
	kind, rest, _ := strings.Cut(rest, ".")
	switch kind {
	case "s":
		if n, ok := parseNumber(rest); ok {
			return Key{Kind: Slot, Pool: pool, N: n}
		}
	case "w":
		id, number, _ := strings.Cut(rest, ".")
		session, okSession := parseHash(id)
		n, okNumber := parseNumber(number)
		if okSession && okNumber {
			return Key{Kind: Ticket, Pool: pool, Session: session, N: n}
		}
	}
	return Key{}
}

// parseNumber takes only the one spelling that strconv.Itoa gives, so that two
// keys never mean the same slot.
func parseNumber(text string) (int, bool) {
	if text == "" || len(text) > 7 || (text[0] == '0' && text != "0") {
		return 0, false
	}
	n := 0
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
		n = n*10 + int(text[i]-'0')
	}
	return n, n <= MaxPosition
}
