package ops

import (
	"crypto/sha256"
	"crypto/subtle"
	"strings"
	"sync/atomic"
)

// Tokens are the bearer tokens that clients may send: one, or two while the old one is
// being replaced. It is safe for concurrent use. A nil *Tokens requires none.
type Tokens struct {
	// hashes have equal lengths, so that a comparison takes the same time for every token.
	hashes atomic.Pointer[[][sha256.Size]byte]
}

// NewTokens returns Tokens that accept each of the given tokens. Without any, clients need
// no token.
func NewTokens(tokens ...string) *Tokens {
	t := &Tokens{}
	t.Replace(tokens...)
	return t
}

// Replace replaces the tokens for all later requests.
func (t *Tokens) Replace(tokens ...string) {
	var hashes [][sha256.Size]byte
	for _, token := range tokens {
		hashes = append(hashes, sha256.Sum256([]byte(token)))
	}
	t.hashes.Store(&hashes)
}

// Required reports whether clients must send a token.
func (t *Tokens) Required() bool { return t != nil && len(*t.hashes.Load()) > 0 }

// Accept reports whether the gateway may serve a request with the given value of the
// Authorization header, "Bearer <token>". If no token is required, it may serve every
// request.
func (t *Tokens) Accept(authorization string) bool {
	if !t.Required() {
		return true
	}
	got := sha256.Sum256([]byte(bearerToken(authorization)))
	found := 0
	for _, hash := range *t.hashes.Load() {
		found |= subtle.ConstantTimeCompare(got[:], hash[:])
	}
	return found == 1
}

// bearerToken returns the token of "Bearer <token>", or "".
func bearerToken(authorization string) string {
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimLeft(token, " ")
}
