package kvslots

import (
	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/hidden"
)

// PoolRef refers to a pool for those who look at it or look after it: by its id, by its hash, or
// as that of a lock or a semaphore. Who knows the hash of a pool cannot borrow from it.
type PoolRef struct{ hash entry.Hash }

// ByID refers to the registered pool with an id.
func ByID(pool uuid.UUID) PoolRef {
	ref := PoolRef{poolHash(pool)}
	hidden.Clear(&pool)
	return ref
}

// ByName refers to the lock or the semaphore with a name, which exists while it is held, waited
// for or out of service.
func ByName(key string) PoolRef { return PoolRef{Lock(key).hash()} }

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
