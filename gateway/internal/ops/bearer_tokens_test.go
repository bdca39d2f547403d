package ops

import (
	"testing"

	"github.com/kvslots/kvslots/kvslots/wire"
)

func TestTokens(t *testing.T) {
	var none *Tokens
	two := NewTokens("old-token", "new-token")
	for _, c := range []struct {
		name          string
		tokens        *Tokens
		authorization string
		want          bool
	}{
		{"nil asks for none", none, "", true},
		{"none are asked for", NewTokens(), "Bearer x", true},
		{"the first", two, "Bearer old-token", true},
		{"the second", two, "bearer  new-token", true},
		{"another", two, "Bearer other", false},
		{"both at once", two, "Bearer old-token new-token", false},
		{"none is sent", two, "", false},
		{"another scheme", two, "Basic old-token", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.tokens.Accept(c.authorization); got != c.want {
				t.Errorf("accepted: %v", got)
			}
		})
	}
	two.Replace(Token{Token: "new-token"})
	if two.Accept("Bearer old-token") || !two.Accept("Bearer new-token") {
		t.Error("the old token is still accepted, or the new one is not")
	}
}

// The tokens of readers give less access.
func TestTokensOfReaders(t *testing.T) {
	tokens := NewTokens()
	tokens.Replace(Token{Token: "full"}, Token{Token: "both"}, Token{Token: "read", ReadOnly: true}, Token{Token: "both", ReadOnly: true})
	for _, c := range []struct {
		tokens        *Tokens
		authorization string
		want          wire.Access
	}{
		{nil, "", wire.AccessFull},
		{tokens, "Bearer full", wire.AccessFull},
		{tokens, "Bearer both", wire.AccessFull},
		{tokens, "Bearer read", wire.AccessRead},
		{tokens, "Bearer other", wire.AccessNone},
		{tokens, "", wire.AccessNone},
	} {
		if got := c.tokens.Access(c.authorization); got != c.want || c.tokens.Accept(c.authorization) != (got == wire.AccessFull) {
			t.Errorf("%q: %v, want %v", c.authorization, got, c.want)
		}
	}
	tokens.Replace(Token{Token: "next", ReadOnly: true})
	if tokens.Access("Bearer read") != wire.AccessNone || tokens.Access("Bearer next") != wire.AccessRead {
		t.Error("the old token is still accepted, or the new one is not")
	}
}
