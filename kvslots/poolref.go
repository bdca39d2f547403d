package kvslots

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// PoolRef refers to a pool for an Operator: by its id, by its hash, or as that of a lock or a semaphore. A hash
// gives no right to borrow. A PoolRef is printed without the id. Two refer to the same pool if they have the same
// Hash.
type PoolRef struct {
	hash entry.Hash
	id   *uuid.UUID // nil unless ByID has made it; behind a pointer, which dumps and fmt do not follow
	key  string     // "" unless ByName has made it

	_ [0]func() // not comparable
}

// ByID refers to the registered pool with an id.
func ByID(pool uuid.UUID) PoolRef {
	return PoolRef{hash: poolHash(pool), id: &pool}
}

// ByName refers to the lock or the semaphore with a name, which exists while it is held, waited
// for or out of service.
func ByName(key string) PoolRef { return PoolRef{hash: Lock(key).hash(), key: key} }

// ByHash refers to the pool with a hash: see Hash. The error is a *RangeError.
func ByHash(text string) (PoolRef, error) {
	var ref PoolRef
	if ref.hash.UnmarshalText([]byte(text)) != nil {
		return PoolRef{}, &RangeError{"hash", "the hash of a pool, 32 hexadecimal digits"}
	}
	return ref, nil
}

// minHashDigits is how many digits of a hash FindPool takes for the beginning of one.
const minHashDigits = 8

// FindPool returns the pool, or the lock or semaphore in use, that a text names: by its public name
// or its key, or by the first 8 or more digits of its hash. It costs the same whatever the bucket holds.
//
// The errors are ErrNoPool, a *RangeError if the text names several, ErrUnavailable, ErrClosed and context.Cause(ctx).
func (s *Store) FindPool(ctx context.Context, text string) (PoolRef, error) {
	r := peer.FindPools{Title: text, Names: []entry.Hash{Lock(text).hash(), ownedHash(text)}, Max: maxListed + 1}
	if digits := strings.ToLower(text); len(digits) >= minHashDigits && strings.Trim(digits, "0123456789abcdef") == "" {
		r.Digits = digits
	}
	a, err := s.bucket.Do(ctx, r)
	if err != nil {
		return PoolRef{}, err
	}
	switch found := a.Stats.Pools; len(found) {
	case 0:
		return PoolRef{}, ErrNoPool
	case 1:
		return RefOf(&found[0]), nil
	default:
		return PoolRef{}, &RangeError{"ref", "the hash or the name of one pool, lock or semaphore; this is of " + listed(found)}
	}
}

// RefOf returns what refers to a pool that was read: by its name that of a lock or semaphore of sessions.
func RefOf(p *PoolStats) PoolRef {
	if p.Key != "" && p.Dialect == "" {
		return ByName(p.Key)
	}
	return PoolRef{hash: p.Hash}
}

// maxListed is how many pools an error lists.
const maxListed = 10

// listed returns the beginnings of the hashes of pools, and of which kind each is.
func listed(pools []PoolStats) string {
	var texts []string
	for i := range pools[:min(len(pools), maxListed)] {
		texts = append(texts, pools[i].Hash.String()[:12]+" ("+pools[i].Type+")")
	}
	if len(pools) > maxListed {
		texts = append(texts, "and more")
	}
	return strings.Join(texts, ", ")
}

// Hash returns the pool's hash, which is not secret.
func (p PoolRef) Hash() string { return p.hash.String() }

// ID returns the pool's id, which is a secret, if ByID has made p. It is for packages that
// implement Operator.
func (p PoolRef) ID() (id uuid.UUID, ok bool) {
	if p.id == nil {
		return uuid.UUID{}, false
	}
	return *p.id, true
}

// Key returns the name, if ByName has made p, or "".
func (p PoolRef) Key() string { return p.key }
