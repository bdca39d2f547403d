package kvslots

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// Option is an option of the calls that take slots, of Register and of CreateSession. A call
// ignores options that it has no use for.
type Option func(*Options) error

// Options is the result of applying the options of one call.
type Options struct {
	Label      string        // see WithLabel
	RequestKey string        // see WithRequestKey
	Origin     string        // see WithOrigin
	Idle       time.Duration // see WithIdle; 0: not set
}

// newOptions returns the result of options, which does not take a part of the caller's stack:
// many may wait. The error is a *RangeError.
func newOptions(opts []Option) (*Options, error) {
	if len(opts) == 0 {
		return &noOptions, nil
	}
	o := new(Options)
	return o, o.Apply(opts)
}

var noOptions Options // must not be changed

// Apply applies options, in their order. The error is a *RangeError.
func (o *Options) Apply(opts []Option) error {
	for _, opt := range opts {
		if err := opt(o); err != nil {
			return err
		}
	}
	return nil
}

// MaxLabel is the longest label, in bytes.
const MaxLabel = entry.MaxLabel

// WithLabel sets a readable label for a lease of Borrow, such as the borrower's name: at most
// MaxLabel bytes of UTF-8. It is not secret; the bucket stores it with the lease. The other
// calls ignore it.
func WithLabel(label string) Option {
	return func(o *Options) error {
		if len(label) > MaxLabel || !utf8.ValidString(label) {
			return &RangeError{"label", fmt.Sprintf("UTF-8 of at most %d bytes", MaxLabel)}
		}
		o.Label = label
		return nil
	}
}

// MaxRequestKey is the longest request key, in bytes.
const MaxRequestKey = 128

// WithRequestKey names a call by a key of 1 to MaxRequestKey printable ASCII characters that
// its caller has made up, such as a random UUID, so that the call can be repeated if its answer
// is lost, at any Store. "" means no key.
//
// While the lease of a Borrow, an Acquire, an Enqueue or a LockOwned lives, a repeat with the
// same key, pool or name, and ttl returns the same lease, with the time that is left. A repeat
// at the same Store while the call waits shares its place in line. The place is kept for
// Config.ResumeGrace when the wait of the last caller is over, or its context has ended with
// ErrPlaceKept, and so is a slot that is granted meanwhile; a repeat at another Store joins the
// line at its end. In a pool no two slots are lent for one key. A repeat with another ttl, while the lease lives or the
// call waits, is refused with ErrKeyReused. When the lease has ended, the key is free again.
//
// A Register with the key of the pool's last Register does nothing; with another count it is
// refused with ErrKeyReused.
//
// Who knows a pool and a key can get the lease of that key. The bucket holds a hash of it.
func WithRequestKey(key string) Option {
	return func(o *Options) error {
		if len(key) > MaxRequestKey || !isPrintable(key) {
			return &RangeError{"request key", fmt.Sprintf("1 to %d printable ASCII characters", MaxRequestKey)}
		}
		o.RequestKey = key
		return nil
	}
}

// WithOrigin says where the client comes from on whose behalf a call is made, such as its
// address: Register and CreateSession count for Config.MaxTombstones by it, sessions for
// MaxSessionsPerOrigin and MaxLocksPerOrigin, and LockOwned for MaxLocksPerOrigin. The origin ""
// is not limited. The bucket holds a hash of it.
func WithOrigin(origin string) Option {
	return func(o *Options) error {
		o.Origin = origin
		return nil
	}
}

// WithIdle sets the idle time of a session, from MinSessionIdle to MaxSessionIdle. It is for
// CreateSession of a Store; a gateway has one idle time for all its clients.
func WithIdle(idle time.Duration) Option {
	return func(o *Options) error {
		if idle < MinSessionIdle || idle > MaxSessionIdle {
			return &RangeError{"idle", fmt.Sprintf("between %v and %v", MinSessionIdle, MaxSessionIdle)}
		}
		o.Idle = idle
		return nil
	}
}

func isPrintable(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// requestHash returns the hash of a request key. What the key belongs to is a part of it; the
// zero hash stands for no key.
func requestHash(of, key string) entry.Hash {
	if key == "" {
		return entry.Hash{}
	}
	return entry.HashOf(entry.OfRequest, of+"\x00"+key)
}

// leaseOfRequest derives the id of a lease from its request key, and a nonce that the bucket
// holds: so any Store can tell it to who knows the pool's id, and the bucket does not contain it.
func leaseOfRequest(pool *uuid.UUID, key string, nonce entry.Hash) (id uuid.UUID) {
	mac := hmac.New(sha256.New, pool[:])
	mac.Write(nonce[:])
	mac.Write([]byte(key))
	copy(id[:], mac.Sum(nil))
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // the form of a random UUID
	return id
}

// nonceOfClaim returns the nonce of claim n of a borrow whose claim 0 has the nonce first.
func nonceOfClaim(first entry.Hash, n int) entry.Hash {
	low := first[12:]
	binary.BigEndian.PutUint32(low, binary.BigEndian.Uint32(low)+uint32(n))
	return first
}
