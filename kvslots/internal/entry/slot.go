package entry

import (
	"encoding/hex"
	"strconv"
	"time"
)

// plain reports whether encode may write the value: Parse reads the same value
// back, and its texts need no escapes.
func (v *SlotValue) plain() bool {
	return validSlot(*v) && v.TTL >= Span(time.Millisecond) && v.TTL <= Span(MaxSpan) && plainText(v.Label) && plainText(v.Owner)
}

// plainText reports whether encoding/json writes a text as it is.
func plainText(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ' || c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}

// encode writes a value as encoding/json does, in a tenth of the time: a slot is
// written with every borrow. It also returns what Parse makes of that.
func (v SlotValue) encode() ([]byte, *SlotValue) {
	v.TTL -= v.TTL % Span(time.Millisecond)
	b := make([]byte, 0, 256+len(v.Label)+len(v.Owner))
	number := func(name string, n uint64) {
		b = strconv.AppendUint(append(b, name...), n, 10)
	}
	hash := func(name string, h Hash) {
		b = append(hex.AppendEncode(append(b, name...), h[:]), '"')
	}
	text := func(name, value string) {
		if value != "" {
			b = append(append(append(b, name...), value...), '"')
		}
	}
	hash(`{"lease":"`, v.Lease)
	if !v.Session.IsZero() {
		hash(`,"session":"`, v.Session)
	}
	hash(`,"claimer":"`, v.Claimer)
	if v.Ticket != 0 {
		number(`,"ticket":`, v.Ticket)
	}
	number(`,"gen":`, v.Generation)
	number(`,"ttl_ms":`, uint64(v.TTL.Duration().Milliseconds()))
	if v.Fence != 0 {
		number(`,"fence":`, v.Fence)
	}
	text(`,"label":"`, v.Label)
	text(`,"owner":"`, v.Owner)
	if !v.Nonce.IsZero() {
		hash(`,"nonce":"`, v.Nonce)
	}
	if v.Unseen {
		b = append(b, `,"unseen":true`...)
	}
	return append(b, '}'), &v
}
