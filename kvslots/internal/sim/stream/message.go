package stream

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

const (
	headerExpectedLast = "Nats-Expected-Last-Sequence"
	headerRollup       = "Nats-Rollup"
)

// Header contains what a message has besides its data. The stream stores it unchanged.
type Header struct {
	// Expected is the revision that the key must have, 0 for none
	// (Nats-Expected-Last-Subject-Sequence). Nil means any revision.
	Expected *uint64

	// ExpectedLast is the last sequence that the stream must have
	// (Nats-Expected-Last-Sequence). Nil means any sequence. A peer reads the last
	// sequence of an unreplicated stream from the refusal of a write that expects 1.
	ExpectedLast *uint64

	// TTL is Nats-TTL: a number of seconds, a duration such as "90s", "never", or ""
	// for none.
	TTL string

	// Operation is KV-Operation: "PURGE" or "DEL" on a key's marker.
	Operation string

	// Reason (Nats-Marker-Reason) and Rollup (Nats-Rollup) are on markers that the
	// server writes.
	Reason, Rollup string

	// Other contains further headers, which the stream ignores.
	Other map[string]string
}

func (h Header) Get(name string) string {
	switch name {
	case entry.HeaderExpected:
		return formatNumber(h.Expected)
	case headerExpectedLast:
		return formatNumber(h.ExpectedLast)
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

// marker reports whether the server treats the message as a marker, for which it writes
// no other marker when it expires. This excludes a marker of kv.Delete ("DEL").
func (h Header) marker() bool { return h.Reason != "" || h.Operation == "PURGE" }

// Message is a write on its way to the stream. The stream keeps Header and Data, which
// must not be changed.
type Message struct {
	Key    string // the subject without the bucket's prefix
	Header Header
	Data   []byte
}

type Stored struct {
	Sequence uint64
	Time     time.Time // by the leader's clock
	Key      string
	Header   Header
	Data     []byte
}

func (m Stored) Entry() entry.Entry {
	return entry.Parse(m.Key, m.Sequence, m.Time, m.Header.Get, m.Data)
}
