package entry

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

type Expect int8

const (
	ExpectRevision Expect = iota // the key's last revision is Message.Revision; 0: the key is absent
	ExpectNothing                // none; for a barrier on a replicated stream
	ExpectStream                 // the stream's last sequence is Message.Revision; for a barrier on one node, which must be refused
)

// Message is one write to the bucket, before it is sent.
type Message struct {
	Key      Key
	Data     []byte // the value without what Value adds; of a purge none
	Marker   bool   // a purge: the key is free afterwards
	Expect   Expect
	Revision uint64
	TTL      time.Duration // how long the message stays in the bucket; 0: for ever
	Outlives int64         // see Entry.Outlives
	Author   uint64        // see Entry.Author
	Mark                   // of a purge
}

// NewMessage returns the message that writes a value to a key whose last
// revision is revision. A ticket's is given by its address: the stack of a waiting request has
// no room for copies.
func NewMessage(key Key, value any, revision uint64, ttl time.Duration) Message {
	m := Message{Key: key, Revision: revision, TTL: ttl}
	var c codec
	switch value := value.(type) {
	case SlotValue:
		c.data = make([]byte, 0, value.size())
		c.slot(&value)
	case *TicketValue:
		c.data = make([]byte, 0, 192)
		c.ticket(value)
	default:
		c.unfit = true
	}
	if m.Data = c.data; c.unfit {
		var err error
		if m.Data, err = encode(value); err != nil {
			panic(err) // cannot happen with the types of this package
		}
	}
	return m
}

// encode returns v as JSON without escapes for HTML.
func encode(v any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// size returns about how many bytes the value takes.
func (v *SlotValue) size() int {
	if v.Request.IsZero() {
		return 192
	}
	return 320 // a value with a request key has a nonce, too
}

// NewPurge returns the message that frees a key whose last revision is revision.
// The marker expires after ttl. (The marker of jetstream's kv.Delete would never expire,
// and kv.Purge would need another round trip.)
func NewPurge(key Key, revision uint64, ttl time.Duration) Message {
	return Message{Key: key, Marker: true, Revision: revision, TTL: ttl}
}

// Headers calls set for each header field of the message.
func (m *Message) Headers(set func(name, value string)) {
	var buffer [40]byte
	revision := strconv.AppendUint(buffer[:0], m.Revision, 10)
	values := string(appendTTL(revision, m.TTL)) // one allocation for both
	switch m.Expect {
	case ExpectRevision:
		set(HeaderExpected, values[:len(revision)])
	case ExpectStream:
		set(HeaderExpectedLast, values[:len(revision)])
	}
	if m.TTL > 0 {
		set(HeaderTTL, values[len(revision):])
	}
	if m.Marker {
		set(HeaderOperation, "PURGE")
	}
}

// FormatTTL returns the value of HeaderTTL. It rounds up to whole seconds, since
// NATS rounds down.
func FormatTTL(d time.Duration) string { return string(appendTTL(nil, d)) }

func appendTTL(dst []byte, d time.Duration) []byte {
	return append(strconv.AppendInt(dst, int64(wholeSeconds(d)/time.Second), 10), 's')
}

func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// parseTTL parses what FormatTTL returns. It returns 0 for anything else.
func parseTTL(text string) time.Duration {
	number, ok := strings.CutSuffix(text, "s")
	seconds := parseRevision(number)
	if !ok || seconds > uint64(200*MaxSpan/time.Second) { // beyond that, a time.Duration could overflow
		return 0
	}
	return time.Duration(seconds) * time.Second
}
