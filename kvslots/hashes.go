package kvslots

import (
	"encoding/binary"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// The bucket has hashes in place of ids, keys and names, each in a domain of its own.

func poolHash(id uuid.UUID) entry.Hash { return hashOf(entry.OfPool, id) }

func leaseHash(id uuid.UUID) entry.Hash { return hashOf(entry.OfLease, id) }

// hashOf hashes an id's text.
func hashOf(domain string, id uuid.UUID) entry.Hash {
	text, _ := id.MarshalText()
	return entry.HashOf(domain, text)
}

func sessionHash(id string) entry.Hash { return entry.HashOf(entry.OfSession, id) }

// originHash returns the hash of an origin, which is zero for "". There are so few addresses that
// they could be found from hashes without the bucket's random text, which no backup contains.
func (s *Store) originHash(origin string) entry.Hash {
	if origin == "" {
		return entry.Hash{}
	}
	return entry.HashOf(entry.OfOrigin, s.bucket.Random()+" "+origin)
}

// halfHash returns the hash of a secret half, which the bucket stores as the lease's.
func halfHash(half string) entry.Hash { return entry.HashOf(entry.OfToken, half) }

func ownedHash(name string) entry.Hash { return entry.HashOf(ownedDialect, name) }

func (r Resource) hash() entry.Hash { return entry.HashOf(entry.OfName, r.Key) }

// requestHash returns the hash of a request key. What the key belongs to is a part of it; the
// zero hash stands for no key.
func requestHash(of, key string) entry.Hash {
	if key == "" {
		return entry.Hash{}
	}
	return entry.HashOf(entry.OfRequest, of+"\x00"+key)
}

// leaseOfRequest derives the id of a lease from its request key, and a nonce that the bucket
// holds: so any Store can tell it to a caller that knows the pool's id, and the bucket does not contain it.
func leaseOfRequest(pool *uuid.UUID, key string, nonce entry.Hash) (id uuid.UUID) {
	var buffer [128]byte // on the stack; longer keys allocate
	id = uuid.UUID(entry.HashOf(entry.OfResumed, append(append(append(buffer[:0], pool[:]...), nonce[:]...), key...)))
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // the form of a random UUID
	return id
}

// nonceOfClaim returns the nonce of claim n of a borrow whose claim 0 has the nonce first.
func nonceOfClaim(first entry.Hash, n int) entry.Hash {
	low := first[12:]
	binary.BigEndian.PutUint32(low, binary.BigEndian.Uint32(low)+uint32(n))
	return first
}
