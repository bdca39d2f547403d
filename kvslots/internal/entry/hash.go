package entry

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
)

// Hash replaces a name or a credential in the bucket. It is the first 128 bits
// of SHA-256 over a domain and the text. The zero Hash means "none".
type Hash [16]byte

// The domains of HashOf. The stored hashes depend on them.
const (
	OfPool    = "library" // the id of a registered pool
	OfLease   = "lease"   // the id of a lease of a registered pool
	OfName    = "dflockd" // the name of a lock or a semaphore of the dflockd dialect, which Terms leave out
	OfOwned   = "forrst"  // the name of an owned lock, and the dialect in its Terms
	OfToken   = "token"   // the secret part of a token
	OfSession = "session" // the id of a client session
	OfOrigin  = "origin"  // of a client session
	OfOwner   = "owner"   // of a lock that no session holds
	OfRequest = "request" // a request key, with what it belongs to
	OfResumed = "resumed" // the id of a pool, a nonce and a request key, from which a lease's id is made
	OfKey     = "key"     // an unknown key, for the log
)

// HashOf hashes text in a domain: the same text in two domains has two hashes.
func HashOf[T string | []byte](domain string, text T) Hash {
	var buffer [64]byte // on the stack; longer texts allocate
	sum := sha256.Sum256(append(append(append(buffer[:0], domain...), '/'), text...))
	return Hash(sum[:16])
}

// IsZero reports whether the hash is "none". encoding/json calls it for omitzero.
func (h Hash) IsZero() bool { return h == Hash{} }

// String returns the hash as 32 lowercase hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText accepts what MarshalText returns, and nothing else.
func (h *Hash) UnmarshalText(text []byte) error {
	parsed, ok := parseHash(text)
	if !ok {
		return errors.New("not a hash of 32 lowercase hexadecimal digits")
	}
	*h = parsed
	return nil
}

func parseHash[T string | []byte](text T) (h Hash, ok bool) {
	if len(text) != 2*len(h) {
		return Hash{}, false
	}
	_, err := hex.Decode(h[:], []byte(text))
	if err != nil || string(hex.AppendEncode(make([]byte, 0, 2*len(h)), h[:])) != string(text) { // upper case
		return Hash{}, false
	}
	return h, true
}
