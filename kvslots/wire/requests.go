package wire

import (
	"time"

	"github.com/google/uuid"
)

// RegisterRequest is the body of a registration.
type RegisterRequest struct {
	Count int
}

// ParseRegister reads {"count"}. Like the other parsers it returns
// ErrMalformed, ErrTooLarge or a *kvslots.RangeError, whose texts hold nothing
// of the body, and ignores the fields it does not know.
func ParseRegister(body []byte) (RegisterRequest, error) {
	fields, err := parseObject(body)
	if err != nil {
		return RegisterRequest{}, err
	}
	count, err := fields.count()
	if err != nil {
		return RegisterRequest{}, err
	}
	return RegisterRequest{Count: count}, nil
}

// BorrowRequest is the body of a borrow. The store clamps both to its maxima.
type BorrowRequest struct {
	TTL  time.Duration // whole seconds, at least one
	Wait time.Duration // whole seconds
}

// ParseBorrow reads {"ttl", "wait"}.
func ParseBorrow(body []byte) (BorrowRequest, error) {
	fields, err := parseObject(body)
	if err != nil {
		return BorrowRequest{}, err
	}
	ttl, err := fields.ttl()
	if err != nil {
		return BorrowRequest{}, err
	}
	wait, err := fields.wait()
	if err != nil {
		return BorrowRequest{}, err
	}
	return BorrowRequest{TTL: ttl, Wait: wait}, nil
}

// ReturnRequest is the body of a return.
type ReturnRequest struct {
	Lease uuid.UUID
}

// ParseReturn reads {"lease"}.
func ParseReturn(body []byte) (ReturnRequest, error) {
	fields, err := parseObject(body)
	if err != nil {
		return ReturnRequest{}, err
	}
	lease, err := fields.id("lease")
	if err != nil {
		return ReturnRequest{}, err
	}
	return ReturnRequest{Lease: lease}, nil
}

// RenewRequest is the body of a renewal. The store clamps TTL to its maximum.
type RenewRequest struct {
	Lease uuid.UUID
	TTL   time.Duration // whole seconds, at least one
}

// ParseRenew reads {"lease", "ttl"}.
func ParseRenew(body []byte) (RenewRequest, error) {
	fields, err := parseObject(body)
	if err != nil {
		return RenewRequest{}, err
	}
	lease, err := fields.id("lease")
	if err != nil {
		return RenewRequest{}, err
	}
	ttl, err := fields.ttl()
	if err != nil {
		return RenewRequest{}, err
	}
	return RenewRequest{Lease: lease, TTL: ttl}, nil
}

// ParsePoolID reads {"id"}, for doors that have no path to put the pool's id
// in. The other fields are left to the other parsers.
func ParsePoolID(body []byte) (uuid.UUID, error) {
	fields, err := parseObject(body)
	if err != nil {
		return uuid.UUID{}, err
	}
	return fields.id("id")
}
