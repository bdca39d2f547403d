package ops

import (
	"crypto/sha256"
	"crypto/subtle"
	"strings"
	"sync"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// Tokens are the bearer tokens that clients may send. It is safe for concurrent use. A nil *Tokens
// requires none.
type Tokens struct {
	mu    sync.RWMutex
	known []knownToken
}

// Token is a bearer token. The log names it, if it has a name, when it changes something.
type Token struct {
	Name, Token string
	ReadOnly    bool
}

// knownToken has a hash instead of the token itself. Hashes have equal lengths, so that a comparison
// takes the same time for every token.
type knownToken struct {
	Token
	hash [sha256.Size]byte
}

// NewTokens returns Tokens that accept each of the given tokens. Without any, clients need
// no token.
func NewTokens(tokens ...string) *Tokens {
	t := &Tokens{}
	var all []Token
	for _, token := range tokens {
		all = append(all, Token{Token: token})
	}
	t.Replace(all...)
	return t
}

// Replace replaces the tokens for all later requests.
func (t *Tokens) Replace(tokens ...Token) {
	var known []knownToken
	for _, token := range tokens {
		hash := sha256.Sum256([]byte(token.Token))
		token.Token = ""
		known = append(known, knownToken{token, hash})
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known = known
}

// find returns which of the tokens a request with the given value of the Authorization header has,
// the one that may do more if there are two, or nil. required is false if there are no tokens.
func (t *Tokens) find(authorization string) (found *Token, required bool) {
	if t == nil {
		return nil, false
	}
	got := sha256.Sum256([]byte(bearerToken(authorization)))
	t.mu.RLock()
	defer t.mu.RUnlock()
	for i := range t.known {
		equal := subtle.ConstantTimeCompare(got[:], t.known[i].hash[:]) == 1
		if equal && (found == nil || found.ReadOnly) {
			found = &t.known[i].Token
		}
	}
	return found, len(t.known) > 0
}

// NameOf returns the name of the token that a request with the given value of the Authorization
// header has, or "".
func (t *Tokens) NameOf(authorization string) string {
	if found, _ := t.find(authorization); found != nil {
		return found.Name
	}
	return ""
}

func (t *Tokens) Required() bool {
	_, required := t.find("")
	return required
}

// Accept reports whether the gateway may serve any request with the given value of the
// Authorization header, "Bearer <token>". If no token is required, it may serve every
// request.
func (t *Tokens) Accept(authorization string) bool { return t.Access(authorization) == wire.AccessFull }

func (t *Tokens) Access(authorization string) wire.Access {
	switch found, required := t.find(authorization); {
	case !required, found != nil && !found.ReadOnly:
		return wire.AccessFull
	case found != nil:
		return wire.AccessRead
	}
	return wire.AccessNone
}

func bearerToken(authorization string) string {
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimLeft(token, " ")
}
