package stream

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// Headers of JetStream that package entry has no use for.
const (
	headerExpectedLast = "Nats-Expected-Last-Sequence"
	headerRollup       = "Nats-Rollup"
)

// Header is what a message carries besides its data. The stream stores all of
// it, unchanged.
type Header struct {
	// Expected is the revision that the key must have, 0 for none
	// (Nats-Expected-Last-Subject-Sequence); nil expects nothing.
	Expected *uint64

	// ExpectedLast is the sequence that the whole stream must have
	// (Nats-Expected-Last-Sequence); nil expects nothing. A peer asks an
	// unreplicated stream for its last sequence by expecting 1.
	ExpectedLast *uint64

	// TTL is Nats-TTL: a number of seconds, a duration such as "90s", "never",
	// or "" for none.
	TTL string

	// Operation is KV-Operation: "PURGE" or "DEL" on a key's marker.
	Operation string

	// Reason (Nats-Marker-Reason) and Rollup (Nats-Rollup) stand on the markers
	// that the server writes itself.
	Reason, Rollup string

	// Other has further headers, which mean nothing to the stream.
	Other map[string]string
}

// Get looks up one header field by name; it returns "" for one that is absent.
func (h Header) Get(name string) string {
	switch name {
	case entry.HeaderExpected:
		return number(h.Expected)
	case headerExpectedLast:
		return number(h.ExpectedLast)
	case entry.HeaderTTL:
		return h.TTL
	case entry.HeaderOperation:
		return h.Operation
	case entry.HeaderReason:
		return h.Reason
	case headerRollup:
		return h.Rollup
	}
	return h.Other[name]
}

// marker reports whether the server takes the message for a marker already, so
// that it writes none when the message's time is over. A marker of kv.Delete
// ("DEL") is no such one.
func (h Header) marker() bool { return h.Reason != "" || h.Operation == "PURGE" }

// Message is a write on its way to the stream. The stream keeps Header and Data:
// they must not be changed any more.
type Message struct {
	Key    string // the subject without the bucket's prefix
	Header Header
	Data   []byte
}

// Stored is a message in the stream.
type Stored struct {
	Sequence uint64
	Time     time.Time // the leader's clock
	Key      string
	Header   Header
	Data     []byte
}

// Entry takes the message apart.
func (m Stored) Entry() entry.Entry {
	return entry.Parse(m.Key, m.Sequence, m.Time, m.Header.Get, m.Data)
}
