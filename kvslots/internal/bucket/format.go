package bucket

import (
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// FormatKey is the key in the metadata of the bucket's stream of the format of its entries. It
// is written when the stream is created, and never changed: see entry.Format.
const FormatKey = "kvslots-format"

// Format is the number of what entries contain and mean.
const Format = entry.Format

// IsComplete reports whether a bucket has what it was created with: a restore writes the format and the id when it has
// written all else.
func IsComplete(c jetstream.StreamConfig) bool {
	return c.Metadata[FormatKey] != "" || c.Metadata[IDKey] != ""
}

// checkFormat returns ErrWrongBucket unless the stream has the format of this kvslots. No
// program reads the bucket of another one: a backup carries its contents over.
func checkFormat(c jetstream.StreamConfig) error {
	if !IsComplete(c) {
		return fmt.Errorf("%w: it has no format number: another program has created it, or a restore of it was interrupted: repeat kvslots restore", ErrWrongBucket)
	}
	found := c.Metadata[FormatKey]
	number, err := strconv.Atoi(found)
	switch {
	case found == strconv.Itoa(entry.Format):
		return nil
	case found == "":
		found = "no format number"
	case err != nil || number > entry.Format:
		return fmt.Errorf("%w: it has the format %.20q, and this kvslots works with format %d: use a later kvslots", ErrWrongBucket, found, entry.Format)
	default:
		found = "format " + found
	}
	return fmt.Errorf("%w: it has %s, and this kvslots works with format %d: make a backup with the kvslots that wrote the bucket, "+
		"then restore it with this one: kvslots restore --replace", ErrWrongBucket, found, entry.Format)
}
