package kvslots

import (
	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/hidden"
)

// PoolRef refers to a pool for those who look at it or look after it: by its id, by its hash, or
// as that of a lock or a semaphore. Who knows the hash of a pool cannot borrow from it. A PoolRef
// is printed without the id. Two refer to the same pool if they have the same Hash.
type PoolRef struct {
	hash entry.Hash
	id   *uuid.UUID // nil unless ByID has made it; behind a pointer, which dumps and fmt do not follow
	key  string     // "" unless ByName has made it

	_ [0]func() // not comparable
}

// ByID refers to the registered pool with an id.
func ByID(pool uuid.UUID) PoolRef {
	ref := PoolRef{hash: poolHash(pool)}
	ref.id = hidden.Move(&pool)
	return ref
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
