package entry

import (
	"bytes"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// codec writes the JSON of slots and tickets as encoding/json does, and reads what it
// wrote. It takes 0.4 µs instead of 1.1 to write a slot, and 0.3 instead of 2.5, without an
// allocation, to read one. The stack of a waiting borrower stays at 8 KiB: with encoding/json
// an HTTP waiter takes 38 KiB instead of 30.
//
// Its methods write a field unless it is zero, or read the field if it is the next one.
type codec struct {
	data    []byte // what is written, or what is left to read
	reading bool
	begun   bool // a field was written or read
	unfit   bool // codec cannot write or read this value: use encoding/json
}

// slot writes or reads a value. After writing, v is what Parse will decode: its times are
// in whole milliseconds.
func (c *codec) slot(v *SlotValue) {
	c.hash(`"lease":"`, &v.Lease)
	c.hash(`"session":"`, &v.Session)
	c.hash(`"claimer":"`, &v.Claimer)
	c.number(`"ticket":`, &v.Ticket)
	c.number(`"gen":`, &v.Generation)
	c.span(`"ttl_ms":`, &v.TTL)
	c.number(`"fence":`, &v.Fence)
	c.number(`"after":`, &v.After)
	c.text(`"label":"`, &v.Label)
	c.text(`"owner":"`, &v.Owner)
	c.hash(`"nonce":"`, &v.Nonce)
	c.flag(`"unseen":true`, &v.Unseen)
	c.hash(`"origin":"`, &v.Origin)
	c.hash(`"request":"`, &v.Request)
	c.span(`"asked_ms":`, &v.Asked)
	c.flag(`"known":true`, &v.Known)
	c.end(v.check() == nil && !v.Claimer.IsZero() && len(v.Answers) == 0) // encoding/json writes a claimer that is zero, and answers
}

func (c *codec) ticket(v *TicketValue) {
	c.hash(`"lease":"`, &v.Lease)
	c.number(`"gen":`, &v.Generation)
	c.hash(`"session":"`, &v.Session)
	c.span(`"wait_ms":`, &v.Wait)
	c.number(`"place":`, &v.Place)
	c.hash(`"peer":"`, &v.Peer)
	c.span(`"grace_ms":`, &v.Grace)
	c.flag(`"away":true`, &v.Away)
	c.span(`"ttl_ms":`, &v.TTL)
	c.hash(`"nonce":"`, &v.Nonce)
	c.flag(`"spent":true`, &v.Spent)
	c.hash(`"origin":"`, &v.Origin)
	c.hash(`"request":"`, &v.Request)
	c.hash(`"waiter":"`, &v.Waiter)
	c.text(`"label":"`, &v.Label)
	c.end(v.check() == nil)
}

func (c *codec) end(valid bool) {
	if !c.reading {
		c.data = append(c.data, '}')
	} else if string(c.data) != "}" {
		c.unfit = true
	}
	c.unfit = c.unfit || !valid
}

// field writes name if set is true, or reads name if it is next. name is what is the same
// in every value that has the field. field reports whether the value has it.
func (c *codec) field(name string, set bool) bool {
	before := byte('{')
	if c.begun {
		before = ','
	}
	if !c.reading {
		if set {
			c.data = append(append(c.data, before), name...)
			c.begun = true
		}
		return set
	}
	if len(c.data) <= len(name) || c.data[0] != before || string(c.data[1:1+len(name)]) != name {
		return false
	}
	c.data, c.begun = c.data[1+len(name):], true
	return true
}

func (c *codec) flag(name string, v *bool) { *v = c.field(name, *v) }

func (c *codec) number(name string, v *uint64) {
	switch {
	case !c.field(name, *v != 0):
	case !c.reading:
		c.data = strconv.AppendUint(c.data, *v, 10)
	default:
		digits := 0
		for ; digits < len(c.data) && '0' <= c.data[digits] && c.data[digits] <= '9'; digits++ {
			*v = *v*10 + uint64(c.data[digits]-'0')
		}
		c.unfit = c.unfit || digits == 0 || digits > 19 || c.data[0] == '0' // 19 digits do not overflow
		c.data = c.data[digits:]
	}
}

// span writes or reads a duration, truncated to whole milliseconds.
func (c *codec) span(name string, v *Span) {
	ms := uint64(v.Duration().Milliseconds())
	c.number(name, &ms)
	c.unfit = c.unfit || ms > uint64(MaxSpan.Milliseconds()) || ms == 0 && *v != 0
	*v = Span(ms) * Span(time.Millisecond)
}

func (c *codec) hash(name string, v *Hash) {
	switch {
	case !c.field(name, !v.IsZero()):
	case !c.reading:
		c.data = append(hex.AppendEncode(c.data, v[:]), '"')
	default:
		h, ok := parseHash(c.quoted())
		c.unfit = c.unfit || !ok || h.IsZero()
		*v = h
	}
}

// text writes or reads a text. One that encoding/json writes with escapes is unfit.
func (c *codec) text(name string, v *string) {
	if !c.field(name, *v != "") {
		return
	}
	if c.reading {
		*v = string(c.quoted())
	} else {
		c.data = append(append(c.data, *v...), '"')
	}
	c.unfit = c.unfit || *v == "" || strings.ContainsFunc(*v, func(r rune) bool {
		return r < ' ' || r > '~' || strings.ContainsRune(`"\`, r)
	})
}

// quoted reads what stands before the next quotation mark.
func (c *codec) quoted() []byte {
	text, rest, _ := bytes.Cut(c.data, []byte{'"'}) // if there is none, end does not find the "}"
	c.data = rest
	return text
}

// decodeSlot decodes a slot's value, whose stamp c has read, with encoding/json if c cannot.
func decodeSlot(c codec, data []byte) (v SlotValue, err error) {
	if c.slot(&v); c.unfit {
		return decode[SlotValue](data)
	}
	return v, nil
}

func decodeTicket(c codec, data []byte) (v TicketValue, err error) {
	if c.ticket(&v); c.unfit {
		return decode[TicketValue](data)
	}
	return v, nil
}
