package entry

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// Expect says what the stream has to check before it takes a message.
type Expect int8

// What is checked.
const (
	ExpectRevision Expect = iota // the key's last revision is Message.Revision; 0: the key is absent
	ExpectNothing                // nothing: a barrier on a replicated stream
	ExpectStream                 // the stream's last sequence is Message.Revision, which it never is: a barrier on one node
)

// Message is one write to the bucket, before it is sent.
type Message struct {
	Key      Key
	Data     []byte
	Marker   bool // a purge: the key is free afterwards
	Expect   Expect
	Revision uint64
	TTL      time.Duration // how long the message stays in the bucket; 0: for ever
	Outlives int64         // see Entry.Outlives
	Ticket   uint64        // of a slot's purge: the ticket that was served by it
	Author   uint64        // a random number, by which its author knows it again
	Owner    string        // of a slot's purge: the owner who released the lock
	slot     *SlotValue    // what Parse makes of Data; nil: that is another kind of value, or has to be read
	wait     *TicketValue  // likewise
}

// NewMessage puts a value under a key whose last revision is the given one.
func NewMessage(key Key, value any, revision uint64, ttl time.Duration) Message {
	m := Message{Key: key, Revision: revision, TTL: ttl}
	if slot, ok := value.(SlotValue); ok && slot.plain() {
		m.Data, m.slot = slot.encode()
		return m
	}
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // our own types: cannot happen
	}
	m.Data = data
	if wait, ok := value.(TicketValue); ok {
		m.wait = wait.read()
	}
	return m
}

// NewPurge frees a key whose last revision is the given one. ttl is the life of
// the marker.
//
// kv.Delete would leave a marker for ever, and kv.Purge would need another round
// trip; so a purge is written by hand, like every entry.
func NewPurge(key Key, revision uint64, ttl time.Duration) Message {
	return Message{Key: key, Marker: true, Revision: revision, TTL: ttl}
}

// Headers calls set for each header field of the message.
func (m *Message) Headers(set func(name, value string)) {
	switch m.Expect {
	case ExpectRevision:
		set(HeaderExpected, strconv.FormatUint(m.Revision, 10))
	case ExpectStream:
		set(HeaderExpectedLast, strconv.FormatUint(m.Revision, 10))
	}
	if m.TTL > 0 {
		set(HeaderTTL, FormatTTL(m.TTL))
	}
	number := func(name string, n uint64) {
		if n != 0 {
			set(name, strconv.FormatUint(n, 10))
		}
	}
	number(HeaderOutlives, uint64(m.Outlives))
	number(HeaderAuthor, m.Author)
	if !m.Marker {
		return
	}
	set(HeaderOperation, "PURGE")
	number(HeaderTicket, m.Ticket)
	if m.Owner != "" {
		set(HeaderOwner, m.Owner)
	}
}

// Entry is what Parse makes of a slot's or a ticket's message that was written at a
// revision, but for the time, which the writer is not told. ok is false for any other
// message, and for a value that has to be read to know what is made of it.
func (m *Message) Entry(revision uint64) (e Entry, ok bool) {
	if m.Expect != ExpectRevision || m.Key.Kind != Slot && m.Key.Kind != Ticket {
		return e, false
	}
	e = Entry{
		Key: m.Key, Revision: revision, Previous: m.Revision, Marker: m.Marker,
		TTL: wholeSeconds(m.TTL), Outlives: m.Outlives, Author: m.Author,
	}
	switch {
	case m.Marker:
		e.Ticket, e.Owner = m.Ticket, m.Owner
		return e, len(m.Owner) <= MaxLabel
	case m.Key.Kind == Slot && m.slot != nil:
		e.Slot = *m.slot
	case m.Key.Kind == Ticket && m.wait != nil:
		e.Wait = *m.wait
	default:
		return e, false
	}
	return e, true
}

// FormatTTL is the value of HeaderTTL. It rounds up: NATS cuts a TTL down to whole
// seconds.
func FormatTTL(d time.Duration) string {
	return strconv.FormatInt(int64(wholeSeconds(d)/time.Second), 10) + "s"
}

func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// parseTTL reads what FormatTTL writes, and a plain number of seconds; 0 is
// for anything else.
func parseTTL(text string) time.Duration {
	seconds := parseRevision(strings.TrimSuffix(text, "s"))
	if seconds > uint64(200*MaxSpan/time.Second) {
		return 0
	}
	return time.Duration(seconds) * time.Second
}
