package ops

import "testing"

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
	two.Replace("new-token")
	if two.Accept("Bearer old-token") || !two.Accept("Bearer new-token") {
		t.Error("the old token is still accepted, or the new one is not")
	}
}
