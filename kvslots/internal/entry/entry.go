package entry

import (
	"strconv"
	"time"
)

// Format is the number of the format of the bucket's entries, and of backups. A change of what
// an entry may contain, or of what it means, increases it (kvslots/DESIGN.md, "Formats").
const Format = 1

// The headers of a message (kvslots/DESIGN.md, "The bucket"), which JetStream and its KV define.
// What kvslots has to say about a write is in the value: see Message.Value.
const (
	HeaderExpected     = "Nats-Expected-Last-Subject-Sequence"
	HeaderExpectedLast = "Nats-Expected-Last-Sequence"
	HeaderTTL          = "Nats-TTL"
	HeaderOperation    = "KV-Operation"
	HeaderReason       = "Nats-Marker-Reason" // on the server's own markers
)

// Entry is one message of the bucket's stream.
type Entry struct {
	Key      Key
	Revision uint64
	Time     time.Time     // when it was written, by the stream leader's clock
	Previous uint64        // the revision that this entry overwrote; 0: none, or not stated
	Marker   bool          // the key is free: it was purged, was deleted or has expired
	TTL      time.Duration // how long it stays in the bucket, counted from Time; 0: for ever
	Outlives int64         // when the last of the key's earlier values ends, in Unix milliseconds by the leader's clock; 0: none ends after this entry
	Author   uint64        // a random number that identifies the write; 0: none
	Mark                   // of a purge
	Corrupt  error         // why the value could not be decoded; the value is then zero

	Config  ConfigValue
	Slot    SlotValue
	Ticket  TicketValue
	Session SessionValue
}

// Header returns the value of a header field, or "" if it is absent.
type Header func(name string) string

// Parse decodes one message. key is the subject without the bucket's prefix.
func Parse(key string, revision uint64, at time.Time, header Header, data []byte) Entry {
	e := Entry{Key: ParseKey(key), Revision: revision, Time: at}
	e.Previous = parseRevision(header(HeaderExpected))
	e.TTL = parseTTL(header(HeaderTTL))
	c := codec{data: data, reading: true}
	c.stamp(&e.Author, &e.Outlives)
	if header(HeaderOperation) != "" || header(HeaderReason) != "" {
		e.Marker = true
		e.Mark = decodeMark(c)
		return e
	}
	switch e.Key.Kind {
	case Config:
		e.Config, e.Corrupt = decode[ConfigValue](data)
	case Slot:
		e.Slot, e.Corrupt = decodeSlot(c, data)
	case Ticket:
		e.Ticket, e.Corrupt = decodeTicket(c, data)
	case Session:
		e.Session, e.Corrupt = decode[SessionValue](data)
	case Barrier:
		var b BarrierValue
		b, e.Corrupt = decode[BarrierValue](data)
		e.Previous = b.Previous
	case Foreign:
		e.Corrupt = errForeign
	}
	return e
}

// parseRevision parses a decimal number. It returns 0, "none", for anything else.
func parseRevision(text string) uint64 {
	if text == "" {
		return 0 // most headers are absent: avoid allocating an error for each
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
