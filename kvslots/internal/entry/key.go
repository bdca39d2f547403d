package entry

import (
	"math"
	"strconv"
	"strings"
)

// MaxPosition is the highest position that a slot's key may carry.
const MaxPosition = math.MaxUint16

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
	id, rest, more := strings.Cut(rest, ".")
	hash, ok := parseHash(id)
	switch {
	case !ok:
	case kind == "n" && !more:
		return Key{Kind: Session, Session: hash}
	case kind == "b" && !more:
		return Key{Kind: Barrier, Session: hash}
	case kind == "p" && rest == "cfg":
		return Key{Kind: Config, Pool: hash}
	case kind == "p":
		return parseNumbered(hash, rest)
	}
	return Key{}
}

// parseNumbered reads what follows the pool in the key of a slot or a ticket.
func parseNumbered(pool Hash, text string) Key {
	kind, rest, _ := strings.Cut(text, ".")
	key, ok := Key{Kind: Slot, Pool: pool}, kind == "s"
	if kind == "w" {
		var session string
		session, rest, _ = strings.Cut(rest, ".")
		key.Kind = Ticket
		key.Session, ok = parseHash(session)
	}
	n, err := strconv.ParseUint(rest, 10, 16) // MaxPosition at most
	if !ok || err != nil || rest[0] == '0' && rest != "0" {
		return Key{} // two spellings of one number would be two keys of one slot
	}
	key.N = int(n)
	return key
}
