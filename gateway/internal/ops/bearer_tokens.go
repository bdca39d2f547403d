package ops

import (
	"crypto/sha256"
	"crypto/subtle"
	"strings"
	"sync/atomic"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// Tokens are the bearer tokens that clients may send: one, or two while the old one is
// being replaced, and those of readers, who change nothing. It is safe for concurrent use. A nil
// *Tokens requires none.
type Tokens struct {
	all, readers atomic.Pointer[hashes]
	named        atomic.Pointer[[]namedHash]
}

// NamedToken is the token of one operator. The log names it when it changes something.
type NamedToken struct {
	Name, Token string
	ReadOnly    bool
}

// namedHash has the hash of a token in its place.
type namedHash struct {
	NamedToken
	hash [sha256.Size]byte
}

// hashes of tokens have equal lengths, so that a comparison takes the same time for every token.
type hashes [][sha256.Size]byte

func hashesOf(tokens []string) *hashes {
	var h hashes
	for _, token := range tokens {
		h = append(h, sha256.Sum256([]byte(token)))
	}
	return &h
}

func (h *hashes) contain(hash [sha256.Size]byte) bool {
	found := 0
	if h != nil {
		for _, known := range *h {
			found |= subtle.ConstantTimeCompare(hash[:], known[:])
		}
	}
	return found == 1
}

// NewTokens returns Tokens that accept each of the given tokens. Without any, clients need
// no token.
func NewTokens(tokens ...string) *Tokens {
	t := &Tokens{}
	t.Replace(tokens...)
	return t
}

// Replace replaces the tokens for all later requests.
func (t *Tokens) Replace(tokens ...string) { t.all.Store(hashesOf(tokens)) }

// ReplaceReaders replaces the tokens of readers for all later requests. They have an effect only
// if there are other tokens.
func (t *Tokens) ReplaceReaders(tokens ...string) { t.readers.Store(hashesOf(tokens)) }

// ReplaceNamed replaces the tokens with names for all later requests.
func (t *Tokens) ReplaceNamed(tokens ...NamedToken) {
	var named []namedHash
	for _, token := range tokens {
		hash := sha256.Sum256([]byte(token.Token))
		token.Token = ""
		named = append(named, namedHash{token, hash})
	}
	t.named.Store(&named)
}

// Named returns the token with a name that a request with the given value of the Authorization
// header has, or nil.
func (t *Tokens) Named(authorization string) (found *NamedToken) {
	if t == nil || t.named.Load() == nil {
		return nil
	}
	got := sha256.Sum256([]byte(bearerToken(authorization)))
	for _, known := range *t.named.Load() {
		if subtle.ConstantTimeCompare(got[:], known.hash[:]) == 1 {
			found = &known.NamedToken
		}
	}
	return found
}

// Required reports whether clients must send a token.
func (t *Tokens) Required() bool {
	return t != nil && (len(*t.all.Load()) > 0 || t.named.Load() != nil && len(*t.named.Load()) > 0)
}

// Accept reports whether the gateway may serve any request with the given value of the
// Authorization header, "Bearer <token>". If no token is required, it may serve every
// request.
func (t *Tokens) Accept(authorization string) bool { return t.Access(authorization) == wire.AccessFull }

// Access returns what a request with the given value of the Authorization header may do.
func (t *Tokens) Access(authorization string) wire.Access {
	if !t.Required() {
		return wire.AccessFull
	}
	got := sha256.Sum256([]byte(bearerToken(authorization)))
	full, read := t.all.Load().contain(got), t.readers.Load().contain(got)
	named := t.Named(authorization)
	switch {
	case full, named != nil && !named.ReadOnly:
		return wire.AccessFull
	case read, named != nil:
		return wire.AccessRead
	}
	return wire.AccessNone
}

// bearerToken returns the token of "Bearer <token>", or "".
func bearerToken(authorization string) string {
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimLeft(token, " ")
}
