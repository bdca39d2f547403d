package entry

import (
	"encoding/hex"
	"math"
	"strconv"
	"strings"
)

// MaxPosition is the highest position in a slot's key.
const MaxPosition = math.MaxUint16

type Kind uint8

// The kinds of keys. Foreign is any key that kvslots does not write.
const (
	Foreign Kind = iota
	Config       // p.<pool>.cfg
	Slot         // p.<pool>.s.<position>
	Ticket       // p.<pool>.w.<author>.<n>
	Session      // n.<session>
	Barrier      // b.<presence>
)

// Key is a decoded key of the bucket. It is comparable.
type Key struct {
	Kind    Kind
	Pool    Hash // Config, Slot, Ticket
	Session Hash // of a Ticket, its author; of a Session, its id; of a Barrier, its peer's presence
	N       int  // of a Slot, its position; of a Ticket, its number, at most 2³¹ − 1
}

func (k Key) String() string {
	const longest = len("p.") + 2*len(k.Pool) + len(".w.") + 2*len(k.Session) + len(".2147483647")
	return string(k.Append(make([]byte, 0, longest)))
}

// Append appends what String returns to b.
func (k Key) Append(b []byte) []byte {
	switch k.Kind {
	case Config:
		b = append(hex.AppendEncode(append(b, "p."...), k.Pool[:]), ".cfg"...)
	case Slot:
		b = append(hex.AppendEncode(append(b, "p."...), k.Pool[:]), ".s."...)
		b = strconv.AppendInt(b, int64(k.N), 10)
	case Ticket:
		b = append(hex.AppendEncode(append(b, "p."...), k.Pool[:]), ".w."...)
		b = append(hex.AppendEncode(b, k.Session[:]), '.')
		b = strconv.AppendInt(b, int64(k.N), 10)
	case Session:
		b = hex.AppendEncode(append(b, "n."...), k.Session[:])
	case Barrier:
		b = hex.AppendEncode(append(b, "b."...), k.Session[:])
	}
	return b
}

// ParseKey decodes a key. A text that String never returns is Foreign.
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

// parseNumbered decodes what follows the pool in the key of a slot or a ticket.
func parseNumbered(pool Hash, text string) Key {
	kind, rest, _ := strings.Cut(text, ".")
	key, ok := Key{Kind: Slot, Pool: pool}, kind == "s"
	if kind == "w" {
		var session string
		session, rest, _ = strings.Cut(rest, ".")
		key.Kind = Ticket
		key.Session, ok = parseHash(session)
	}
	n, err := strconv.ParseUint(rest, 10, 31)
	if !ok || err != nil || kind == "s" && n > MaxPosition || rest[0] == '0' && rest != "0" {
		return Key{} // a second spelling of a number would be a second key of one slot
	}
	key.N = int(n)
	return key
}
