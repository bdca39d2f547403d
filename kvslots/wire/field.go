package wire

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
)

// field is a field of a body, or a parameter of a query: gateways decode it, and clients encode it.
type field struct {
	name      string
	of        func(*Params) any             // a pointer to its value; nil if the request has none
	optional  bool                          // it may be absent, and clients leave it out if it is zero
	low, high int64                         // of a number; of seconds there is no high, since the store clamps them
	initial   int                           // of a number that is absent; clients write it even if it is 0
	check     func(name, text string) error // of a text
}

// The fields of requests.
var (
	countField = &field{name: "count", high: kvslots.MaxCount, of: func(p *Params) any { return &p.Count }}
	nameField  = &field{name: "name", optional: true, check: checked(kvslots.WithName), of: func(p *Params) any { return &p.Name }}
	labelField = &field{name: "label", optional: true, check: checked(kvslots.WithLabel), of: func(p *Params) any { return &p.Label }}
	leaseField = &field{name: "lease", of: func(p *Params) any { return &p.LeaseID }}
	ttlField   = &field{name: "ttl", low: 1, of: ttl}
	waitField  = &field{name: "wait", optional: true, of: wait}

	idleField      = &field{name: "idle_timeout_s", optional: true, low: 1, of: func(p *Params) any { return &p.IdleTimeout }}
	acquireField   = &field{name: "acquire_timeout_s", of: wait}
	timeoutField   = &field{name: "timeout_s", of: wait}
	leaseTTLField  = &field{name: "lease_ttl_s", optional: true, of: ttl}
	limitField     = &field{name: "limit", low: 1, high: kvslots.MaxSemaphoreLimit, of: func(p *Params) any { return &p.Limit }}
	uncountedField = &field{name: "uncounted", optional: true, of: func(p *Params) any { return &p.Uncounted }}
	tokenField     = &field{name: "token", check: checkToken, of: func(p *Params) any { return &p.Token }}

	// What a request is about over NATS.
	idField      = &field{name: "id", of: func(p *Params) any { return &p.Pool }}
	sessionField = &field{name: "session", check: checkSession, of: func(p *Params) any { return &p.Session }}
	keyField     = &field{name: "key", check: checkKey, of: func(p *Params) any { return &p.Key }}
	refField     = &field{name: "ref", of: func(p *Params) any { return p.Operator }}

	// A lease of a pool, or with a session that of a lock or a semaphore.
	itsSessionField = &field{name: "session", optional: true, check: checkSession, of: func(p *Params) any { return &p.Session }}
	itsField        = &field{name: "ref", check: checkKey, of: func(p *Params) any { return either(p, &p.Pool, &p.Key) }}
	itsLeaseField   = &field{name: "lease", of: func(p *Params) any { return either(p, &p.LeaseID, nil) }}
	itsTokenField   = &field{name: "token", check: checkToken, of: func(p *Params) any { return either(p, nil, &p.Token) }}

	positionField = &field{name: "position", high: maxPlace, of: func(p *Params) any { return &p.Operator.Position }}
	fenceField    = &field{name: "fence", low: 1, high: maxFence, of: func(p *Params) any { return &p.Operator.Fence }}
	outField      = &field{name: "out", of: func(p *Params) any { return &p.Operator.Out }}
	reasonField   = &field{name: "reason", optional: true, of: func(p *Params) any { return &p.Operator.Reason }}
	fromField     = &field{name: "from", optional: true, high: maxPlace, of: func(p *Params) any { return &p.Operator.Page.From }}
	afterField    = &field{name: "after", optional: true, high: maxPlace, of: func(p *Params) any { return &p.Operator.Page.After }}
	holdersField  = listed("leases", 0, func(p *Params) any { return &p.Operator.Page.MaxHolders })
	waitersField  = listed("line", 0, func(p *Params) any { return &p.Operator.Page.MaxWaiters })

	sortField      = &field{name: "sort", optional: true, of: func(p *Params) any { return &p.Operator.Query.Order }}
	nextField      = &field{name: "after", optional: true, of: func(p *Params) any { return &p.Operator.Query.After }}
	matchField     = &field{name: "q", optional: true, of: func(p *Params) any { return &p.Operator.Query.Match }}
	holderField    = &field{name: "holder", optional: true, of: func(p *Params) any { return &p.Operator.Query.Holder }}
	contendedField = &field{name: "contended", optional: true, of: func(p *Params) any { return &p.Operator.Query.Waiting }}
)

// either returns a parameter of the lease of a pool, or that of a session.
func either(p *Params, ofPool, ofSession any) any {
	if p.Session == "" {
		return ofPool
	}
	return ofSession
}

func ttl(p *Params) any  { return &p.TTL }
func wait(p *Params) any { return &p.Wait }

// listed is how many items an answer lists.
func listed(name string, low int64, of func(*Params) any) *field {
	return &field{name: name, optional: true, low: low, high: maxListed, initial: defaultListed, of: of}
}

const (
	maxListed     = 1000 // of leases, places and pools in one answer; kvslots.MaxPoolsRead
	maxListedNATS = 100  // and at most MaxAnswer bytes
	defaultListed = 100
	maxPlace      = math.MaxInt32 // no position and no place is higher
	maxFence      = 1<<53 - 1

	// maxSeconds is the bound to which larger numbers of seconds are reduced: 68 years, far
	// above every maximum that can be configured, and within the range of time.Duration.
	maxSeconds = math.MaxInt32
)

// decode sets the field to a value: JSON, or in a query a text. nil: it is absent. The error is a *kvslots.RangeError.
func (f *field) decode(p *Params, value []byte, inQuery bool) (err error) {
	into := f.of(p)
	if value == nil && f.optional {
		if n, ok := into.(*int); ok {
			*n = f.initial
		}
		return nil
	}
	switch into := into.(type) {
	case nil:
		if value != nil {
			err = rangeError(f.name, "absent")
		}
	case *int:
		var n int64
		n, err = f.whole(value)
		*into = int(n)
	case *uint64:
		var n int64
		n, err = f.whole(value)
		*into = uint64(n)
	case *time.Duration:
		*into, err = f.seconds(value)
	case *bool:
		if *into = string(value) == "true"; !*into && string(value) != "false" {
			err = rangeError(f.name, "true or false")
		}
	case *string:
		*into, err = f.text(value, inQuery)
	case **string:
		var text string
		text, err = f.text(value, inQuery)
		*into = &text
	case *uuid.UUID:
		text, _ := f.text(value, inQuery)
		*into, err = ParseID(f.name, text)
	case *kvslots.PoolOrder:
		text, _ := f.text(value, inQuery)
		if *into = kvslots.PoolOrder(slices.Index(orders, text)); *into < 0 {
			err = rangeError(f.name, "one of "+strings.Join(orders, ", "))
		}
	case *OperatorParams:
		text, _ := f.text(value, inQuery)
		err = into.locate(text)
	}
	return err
}

// whole returns an integer in the field's range.
func (f *field) whole(value []byte) (int64, error) {
	n, ok := integer(value)
	if !ok || n < f.low || n > f.high {
		return 0, rangeError(f.name, fmt.Sprintf("an integer between %d and %d", f.low, f.high))
	}
	return n, nil
}

// seconds returns a number of seconds, at most maxSeconds.
func (f *field) seconds(value []byte) (time.Duration, error) {
	n, ok := integer(value)
	if !ok || n < f.low {
		return 0, rangeError(f.name, fmt.Sprintf("a whole number of seconds, %d or more", f.low))
	}
	return time.Duration(min(n, maxSeconds)) * time.Second, nil
}

// text returns a text that the field's check accepts, or any text without one.
func (f *field) text(value []byte, inQuery bool) (string, error) {
	text, ok := Text(value)
	if inQuery {
		text, ok = strings.ToValidUTF8(string(value), "\ufffd"), true
	}
	switch {
	case f.check != nil && ok:
		return text, f.check(f.name, text)
	case f.check != nil:
		return "", f.check(f.name, "\xff") // which no check accepts
	case !ok:
		return "", rangeError(f.name, "a text")
	}
	return text, nil
}

// encoded returns the value that a client writes, or nil if it leaves the field out.
func (f *field) encoded(p *Params) any {
	of := f.of(p)
	if of == nil {
		return nil
	}
	value := reflect.ValueOf(of).Elem()
	if f.optional && f.initial == 0 && value.IsZero() {
		return nil
	}
	switch value := value.Interface().(type) {
	case time.Duration:
		return Seconds(value)
	case kvslots.PoolOrder:
		return NameOf(value)
	default:
		return value
	}
}

// Seconds returns a duration in whole seconds, rounded up, for a request.
func Seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// checked returns the check of a text that an option takes.
func checked(option func(string) kvslots.Option) func(name, text string) error {
	return func(_, text string) error { return option(text)(new(kvslots.Options)) }
}

func checkToken(name, text string) error {
	if !IsToken(text) {
		return rangeError(name, strconv.Itoa(idDigits)+" lowercase hexadecimal digits")
	}
	return nil
}

func checkSession(name, text string) error {
	if text == "" || !utf8.ValidString(text) {
		return rangeError(name, "the id of a session")
	}
	return nil
}

func checkKey(_, text string) error { return CheckKey(text) }

// ParseID parses a UUID in its canonical form of 36 characters, in upper or lower
// case. The error is a *kvslots.RangeError that names the field.
func ParseID(field, text string) (uuid.UUID, error) {
	// uuid.Parse would also take a urn, braces, and 32 digits without dashes.
	if len(text) == 36 {
		if id, err := uuid.Parse(text); err == nil {
			return id, nil
		}
	}
	return uuid.UUID{}, rangeError(field, "a canonical UUID of 36 characters")
}

// rangeError returns the error for a field that is missing, of another type or out of
// range.
func rangeError(field, allowed string) error {
	return &kvslots.RangeError{Field: field, Range: allowed}
}
