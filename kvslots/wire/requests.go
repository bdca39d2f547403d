package wire

import (
	"time"

	"github.com/google/uuid"
)

// ParseLax reads a body that must be one JSON object, as those of pools are read:
// fields that a request has no use for are ignored, and of a field that is given
// more than once the last counts. Like ParseStrict and the methods of Fields it
// returns ErrMalformed, ErrTooLarge or a *kvslots.RangeError, whose texts hold
// nothing of the body.
func ParseLax(body []byte) (Fields, error) {
	fields, err := parseObject(body)
	return Fields{object: fields}, err
}

// Pool reads {"id"}, for transports that have no path to put the pool's id in.
func (f *Fields) Pool() (uuid.UUID, error) { return f.id("id") }

// Register reads {"count"}.
func (f *Fields) Register() (count int, err error) { return f.count() }

// Borrow reads {"ttl", "wait"}. The TTL is at least a second. The store clamps both
// to its maxima.
func (f *Fields) Borrow() (c Claim, err error) {
	if c.TTL, err = f.ttl(); err != nil {
		return Claim{}, err
	}
	if c.Wait, err = f.wait(); err != nil {
		return Claim{}, err
	}
	return c, nil
}

// Return reads {"lease"}.
func (f *Fields) Return() (lease uuid.UUID, err error) { return f.id("lease") }

// RenewLease reads {"lease", "ttl"}. The ttl is at least a second. The store clamps
// it to its maximum.
func (f *Fields) RenewLease() (lease uuid.UUID, ttl time.Duration, err error) {
	if lease, err = f.id("lease"); err != nil {
		return lease, 0, err
	}
	ttl, err = f.ttl()
	return lease, ttl, err
}
