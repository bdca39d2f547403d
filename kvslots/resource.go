package kvslots

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// MaxKey is the longest name of a lock or a semaphore, in bytes.
const MaxKey = 256

// MaxSemaphoreLimit is the highest limit of a semaphore.
const MaxSemaphoreLimit = 65535

// Kind distinguishes locks from semaphores.
type Kind int

// Kinds of Resource. A key that is held or waited for has one of them.
const (
	KindLock Kind = iota
	KindSemaphore
)

func (k Kind) String() string { return [...]string{KindLock: "lock", KindSemaphore: "semaphore"}[k] }

// Resource identifies a lock or a semaphore.
type Resource struct {
	Kind  Kind
	Key   string // 1 … MaxKey bytes of UTF-8 without white space, control or invisible characters (IsHidden)
	Limit int    // slots of a semaphore, 1 … MaxSemaphoreLimit; only Acquire and Enqueue use it
}

// Lock returns the Resource of a lock.
func Lock(key string) Resource { return Resource{KindLock, key, 1} }

// Semaphore returns the Resource of a semaphore with limit slots.
func Semaphore(key string, limit int) Resource { return Resource{KindSemaphore, key, limit} }

// Grant is a lock, or one slot of a semaphore, that a session holds.
type Grant struct {
	Token string        // 32 hexadecimal digits, secret; the first 16 are the fence
	Fence uint64        // the fencing token: see Lease.Fence
	TTL   time.Duration // the time for which it was granted: see Lease.TTL
	At    time.Time     // when TTL began, by this machine's clocks; with a gateway, not later

	// Queued reports whether a Store's Acquire waited in line for the grant.
	Queued bool

	// Resumed reports whether the grant is that of an earlier call with the same request key.
	Resumed bool

	sharers peer.Sharers
}

// Check returns a *RangeError if r is invalid. It checks the limit, which only Acquire and
// Enqueue use, if limited is true.
func (r Resource) Check(limited bool) error {
	switch {
	case r.Kind != KindLock && r.Kind != KindSemaphore:
		return &RangeError{"kind", "a lock or a semaphore"}
	case len(r.Key) < 1 || len(r.Key) > MaxKey || !utf8.ValidString(r.Key) || strings.ContainsFunc(r.Key, isBlank):
		return &RangeError{"key", fmt.Sprintf("1 to %d bytes of UTF-8 without white space, control or invisible characters", MaxKey)}
	case limited && r.Kind == KindSemaphore && (r.Limit < 1 || r.Limit > MaxSemaphoreLimit):
		return &RangeError{"limit", fmt.Sprintf("between 1 and %d", MaxSemaphoreLimit)}
	}
	return nil
}

func isBlank(c rune) bool { return unicode.IsSpace(c) || IsHidden(c) }

// IsHidden reports whether a character has no place in a name, since people do not see it:
// control characters, those of no width, and those that change the direction of text. Two
// names that differ by them look alike in logs and statistics.
func IsHidden(c rune) bool { return entry.IsHidden(c) }

func (r Resource) pool() peer.Resource {
	p := peer.Resource{Pool: r.hash(), Name: r.Key, Lock: r.Kind == KindLock, Limit: r.Limit}
	if p.Lock {
		p.Limit = 1
	}
	return p
}

// hash returns the id of r's pool, which a lock and a semaphore of the same name share.
