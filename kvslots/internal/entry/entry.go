// Package entry is what stands in the bucket: the keys, the values, and one
// message of the stream taken apart. It does no I/O; what cannot be read is
// said to be corrupt and never panics.
package entry

import (
	"strconv"
	"time"
)

// The headers that carry the rules (kvslots/DESIGN.md, "The bucket"). The first
// five are those of JetStream and its KV, the others are ours.
const (
	HeaderExpected     = "Nats-Expected-Last-Subject-Sequence"
	HeaderExpectedLast = "Nats-Expected-Last-Sequence"
	HeaderTTL          = "Nats-TTL"
	HeaderOperation    = "KV-Operation"
	HeaderReason       = "Nats-Marker-Reason" // on the server's own markers
	HeaderTicket       = "Kvslots-Ticket"     // the ticket that was served by the slot
	HeaderAuthor       = "Kvslots-Author"     // on any entry: by which its author knows it again
	HeaderOwner        = "Kvslots-Owner"      // a hash of the owner that released the lock
	HeaderOutlives     = "Kvslots-Outlives"   // on any entry: see Entry.Outlives
)

// Entry is one message of the bucket's stream.
type Entry struct {
	Key      Key
	Revision uint64
	Time     time.Time     // the stream leader's clock
	Previous uint64        // the revision that this entry overwrote, where it says so
	Marker   bool          // the key is free: purged, deleted or expired
	TTL      time.Duration // how long it stays in the bucket, counted from Time; 0: for ever
	Outlives int64         // when the last of the key's earlier values ends, in Unix milliseconds by the leader's clock; 0: this is the last
	Ticket   uint64        // of a slot's purge: the ticket that was served by it
	Author   uint64        // see HeaderAuthor
	Owner    string        // of a slot's purge: see HeaderOwner
	Corrupt  error         // the value could not be read; the value is then zero

	Config  ConfigValue
	Slot    SlotValue
	Wait    TicketValue
	Session SessionValue
}

// Header looks up one header field; it returns "" for one that is absent.
type Header func(name string) string

// Parse takes one message apart. key is the subject without the bucket's
// prefix.
func Parse(key string, revision uint64, at time.Time, header Header, data []byte) Entry {
	e := Entry{Key: ParseKey(key), Revision: revision, Time: at}
	e.Previous = parseRevision(header(HeaderExpected))
	e.Author = parseRevision(header(HeaderAuthor))
	e.TTL, e.Outlives = parseTTL(header(HeaderTTL)), int64(parseRevision(header(HeaderOutlives)))
	if header(HeaderOperation) != "" || header(HeaderReason) != "" {
		e.Marker = true
		e.Ticket = parseRevision(header(HeaderTicket))
		if owner := header(HeaderOwner); len(owner) <= MaxLabel {
			e.Owner = owner
		}
		return e
	}
	switch e.Key.Kind {
	case Config:
		e.Config, e.Corrupt = decode(data, validConfig)
	case Slot:
		e.Slot, e.Corrupt = decodeSlot(data)
	case Ticket:
		e.Wait, e.Corrupt = decode(data, validTicket)
	case Session:
		e.Session, e.Corrupt = decode(data, validSession)
	case Barrier:
		var b BarrierValue
		b, e.Corrupt = decode(data, func(BarrierValue) bool { return true })
		e.Previous = b.Previous
	case Foreign:
		e.Corrupt = errForeign
	}
	return e
}

// parseRevision reads a stream sequence; anything else is 0, "none".
func parseRevision(text string) uint64 {
	if text == "" {
		return 0 // without an error to allocate: most headers are absent
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
