package wire

import (
	"time"

	"github.com/google/uuid"
)

// ParseLax parses the body of a request about a pool, which must be one JSON object.
// Unknown fields are ignored, and of repeated fields the last one counts. Like
// ParseStrict and the methods of Fields it returns ErrMalformed, ErrTooLarge or a
// *kvslots.RangeError, whose texts contain nothing of the body.
func ParseLax(body []byte) (Fields, error) {
	fields, err := parseObject(body)
	return Fields{object: fields}, err
}

// Pool parses {"id"} of a request over NATS. Over HTTP the path contains the pool's id.
func (f *Fields) Pool() (uuid.UUID, error) { return f.id("id") }

// Register parses {"count"}.
func (f *Fields) Register() (count int, err error) { return f.count() }

// Borrow parses {"ttl", "wait"}. The TTL is at least a second. The store clamps both
// to its maxima.
func (f *Fields) Borrow() (c GrantParams, err error) {
	if c.TTL, err = f.ttl(); err != nil {
		return GrantParams{}, err
	}
	if c.Wait, err = f.wait(); err != nil {
		return GrantParams{}, err
	}
	return c, nil
}

// Return parses {"lease"}.
func (f *Fields) Return() (lease uuid.UUID, err error) { return f.id("lease") }

// RenewLease parses {"lease", "ttl"}. The ttl is at least a second. The store clamps
// it to its maximum.
func (f *Fields) RenewLease() (lease uuid.UUID, ttl time.Duration, err error) {
	if lease, err = f.id("lease"); err != nil {
		return lease, 0, err
	}
	ttl, err = f.ttl()
	return lease, ttl, err
}
