package kvslots

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// Option is an option of the calls that take slots, of Register, of CreateSession, and of those of an
// Operator. A call ignores options that it has no use for.
type Option func(*Options) error

// Options is the result of applying the options of one call.
type Options struct {
	Label      string        // see WithLabel
	Name       *string       // see WithName; nil: not set
	RequestKey string        // see WithRequestKey
	Origin     string        // see WithOrigin
	Idle       time.Duration // see WithIdle; 0: not set
	Operator   string        // see WithOperator
	Uncounted  bool          // for a client.Client: the call is not the last one of its wait, or leaves the line

	TTL   time.Duration  // see WithTTL; 0: not set
	Fixed bool           // see WithFixedTTL
	Wait  *time.Duration // see WithWait; nil: not set
}

// Times returns TTL, or DefaultLeaseTTL, and Wait, which is a year at most and by default.
func (o *Options) Times() (ttl, wait time.Duration) {
	if ttl, wait = o.TTL, year; o.Wait != nil {
		wait = min(*o.Wait, year)
	}
	return cmp.Or(ttl, DefaultLeaseTTL), wait
}

// newOptions returns the result of options. The error is a *RangeError.
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

// MaxLabel is the longest label, name of a pool, and reason, in characters.
const MaxLabel = entry.MaxText

// WithLabel says who asks for a lease, such as "ci@build7:1234 make deploy": 0 to MaxLabel
// printable characters. Clients that may read the pool see it beside the lease and the place in
// line, and so does the log; it is not secret. A session's label is that of its leases which
// have none. Register ignores it.
func WithLabel(label string) Option {
	return func(o *Options) error {
		o.Label = label
		return checkText("label", label)
	}
}

// WithName gives a pool that Register registers a public name of 0 to MaxLabel printable
// characters, which is shown beside the pool's hash. It is not secret, and need not be unique.
// Without it, a pool keeps the name that it has.
func WithName(name string) Option {
	return func(o *Options) error {
		o.Name = &name
		return checkText("name", name)
	}
}

func checkText(field, text string) error {
	if entry.IsText(text) {
		return nil
	}
	return &RangeError{field, fmt.Sprintf("0 to %d printable characters", MaxLabel)}
}

// MaxRequestKey is the longest request key, in bytes.
const MaxRequestKey = 128

// WithRequestKey names a call by a key of 1 to MaxRequestKey printable ASCII characters that
// its caller has made up, such as a random UUID, so that the call can be repeated if its answer
// is lost, at any Store. "" means no key.
//
// While the lease of a Borrow, an Acquire, an Enqueue or a LockOwned lives, a repeat with the
// same key, pool or name, and ttl returns the same lease, with the time that is left. A repeat
// at any Store while the call waits waits in its place in line. The place is kept for
// Config.ResumeGrace when the wait of the last caller is over, or its context has ended with
// ErrPlaceKept, or its Store has died: until a repeat comes, it is not served, and delays no other
// call. In a pool no two slots are lent for one key. A repeat with another ttl, while the lease lives or the
// call waits, is refused with ErrKeyReused. When the lease has ended, the key is free again.
//
// A Register with the key of the pool's last Register does nothing; with another count it is
// refused with ErrKeyReused.
//
// A client that knows a pool and a key can get the lease of that key. The bucket holds a hash of it.
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
// address. By it Register and CreateSession count for Config.MaxTombstones, pools for MaxPoolsPerOrigin, places
// in line for MaxPlacesPerOrigin, sessions for MaxSessionsPerOrigin and MaxLocksPerOrigin, and LockOwned and
// TakeOut for MaxLocksPerOrigin. The origin "" is not limited. The bucket holds a hash of it.
func WithOrigin(origin string) Option {
	return func(o *Options) error {
		o.Origin = origin
		return nil
	}
}

// WithTTL sets the lease of what is taken, of at least a second; without it that is DefaultLeaseTTL. A Lease and a Mutex
// renew it in the background. It is how long others wait if this program is gone, and how long this program may
// go without an answer. What is granted may be less: see Config.MaxTTL, and Lease.TTL. For a ttl of a Mutex that is longer
// than its session's idle time the Session opens another one, with a longer idle time.
func WithTTL(ttl time.Duration) Option { return withTTL(ttl, false) }

// WithFixedTTL is WithTTL for a lease of Borrow, BorrowAll and With that is not renewed in the background: it ends after
// ttl, unless Renew or KeepAlive is called.
func WithFixedTTL(ttl time.Duration) Option { return withTTL(ttl, true) }

func withTTL(ttl time.Duration, fixed bool) Option {
	return func(o *Options) error {
		o.TTL, o.Fixed = ttl, fixed
		return CheckTimes(ttl, 0)
	}
}

// WithWait sets how long a call waits in line, at least 0; then it returns ErrNoSlot. Without it the call waits until
// its context ends.
func WithWait(wait time.Duration) Option {
	return func(o *Options) error {
		o.Wait = &wait
		return CheckTimes(time.Second, wait)
	}
}

// WithOperator says who calls TakeOut, PutBack, SetLimit or Evict, in 0 to MaxLabel printable ASCII
// characters without quotes and backslashes. Events tell it.
func WithOperator(name string) Option {
	return func(o *Options) error {
		o.Operator = name
		if len(name) > MaxLabel || !isPrintable(name) || strings.ContainsAny(name, `"\`) {
			return &RangeError{"operator", fmt.Sprintf("0 to %d printable ASCII characters without quotes and backslashes", MaxLabel)}
		}
		return nil
	}
}

// WithIdle sets the idle time of a session, from MinSessionIdle to MaxSessionIdle: how long it lives without
// a call. A gateway may grant less.
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
