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

// Kind tells a lock from a semaphore.
type Kind int

// The kinds. One key is one of them at a time.
const (
	KindLock Kind = iota
	KindSemaphore
)

// Resource is a lock or a semaphore, by its name.
type Resource struct {
	Kind  Kind
	Key   string // 1 … MaxKey bytes of UTF-8 without white space
	Limit int    // of a semaphore, 1 … MaxSemaphoreLimit; only Acquire and Enqueue look at it
}

// Lock is the lock of that name.
func Lock(key string) Resource { return Resource{KindLock, key, 1} }

// Semaphore is the semaphore of that name, with a limit.
func Semaphore(key string, limit int) Resource { return Resource{KindSemaphore, key, limit} }

// Grant is a lock, or one slot of a semaphore, that a session holds.
type Grant struct {
	Token string        // 32 hexadecimal digits, a secret; the first 16 are the fence
	Fence uint64        // the fencing token: see Lease.Fence
	TTL   time.Duration // how long it was promised to last

	// Queued reports that a Store's Acquire stood in line before it was granted.
	Queued bool
}

// Check returns a *RangeError if something is wrong with the resource. The limit is
// looked at only if limited, as by Acquire and Enqueue.
func (r Resource) Check(limited bool) error {
	switch {
	case r.Kind != KindLock && r.Kind != KindSemaphore:
		return &RangeError{"kind", "a lock or a semaphore"}
	case len(r.Key) < 1 || len(r.Key) > MaxKey || !utf8.ValidString(r.Key) || strings.ContainsFunc(r.Key, blank):
		return &RangeError{"key", fmt.Sprintf("1 to %d bytes of UTF-8 without white space or control characters", MaxKey)}
	case limited && r.Kind == KindSemaphore && (r.Limit < 1 || r.Limit > MaxSemaphoreLimit):
		return &RangeError{"limit", fmt.Sprintf("between 1 and %d", MaxSemaphoreLimit)}
	}
	return nil
}

func blank(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }

// pool is the resource as its peer knows it.
func (r Resource) pool() peer.Resource {
	p := peer.Resource{Pool: r.hash(), Name: r.Key, Lock: r.Kind == KindLock, Limit: r.Limit}
	if p.Lock {
		p.Limit = 1
	}
	return p
}

// hash is the resource's pool. A lock and a semaphore of one name are one.
func (r Resource) hash() entry.Hash { return entry.HashOf("dflockd", r.Key) }
