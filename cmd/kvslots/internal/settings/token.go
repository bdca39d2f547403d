package settings

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/kvslots"
)

const (
	tokenFlag     = "auth-token"
	TokenFileFlag = "auth-token-file"

	maxToken = 1000 // bytes
)

// Token is a bearer token, or a file of them, that serve requires of clients, or that other commands
// send. It is a secret: no log line and no error contains it.
type Token struct {
	Value string // the first, which commands send
	path  string
}

func (t *Token) addFlags(flags table, usage, fileUsage string) {
	flags.row(tokenFlag, plain(&t.Value, ""), usage+"; better given as "+EnvName(tokenFlag)+", or in a file", secret)
	flags.row(TokenFileFlag, plain(&t.path, ""), fileUsage+"; - is standard input", secretFile)
}

// load reads the file, if one was given, and returns the tokens. An empty token is an error
// if it was given: an unset shell variable must not disable access control.
func (t *Token) load(flags *pflag.FlagSet, stdin io.Reader) (all []gateway.Token, err error) {
	switch {
	case flags.Changed(TokenFileFlag):
		content, err := ReadSecret(stdin, t.path)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", TokenFileFlag, err)
		}
		if all, err = parseTokens(string(content)); err != nil {
			return nil, err
		}
		t.Value = all[0].Token
	case flags.Changed(tokenFlag):
		all, err = []gateway.Token{{Token: t.Value}}, checkToken("--"+tokenFlag, t.Value)
	}
	return all, err
}

// Given reports whether a token was given, or a file with one.
func (t *Token) Given() bool { return t.Value != "" || t.path != "" }

const tokenLine = "TOKEN, NAME read TOKEN, or NAME admin TOKEN"

// parseTokens parses the content of a file of tokens, one a line. It returns an error without any text
// of the file, since that has secrets.
func parseTokens(content string) (all []gateway.Token, err error) {
	number := 0
	for line := range strings.Lines(content) {
		number++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		token := gateway.Token{Token: words[len(words)-1]}
		if len(words) != 1 && (len(words) != 3 || words[1] != "read" && words[1] != "admin") || checkToken("", token.Token) != nil {
			return nil, Usagef("--%s: line %d must be %s; a token is 1 to %d ASCII characters", TokenFileFlag, number, tokenLine, maxToken)
		}
		if len(words) == 3 {
			token.Name, token.ReadOnly = words[0], words[1] == "read"
		}
		if o := new(kvslots.Options); kvslots.WithOperator(token.Name)(o) != nil {
			return nil, Usagef("--%s: line %d: a name is up to %d ASCII characters without quotes and backslashes", TokenFileFlag, number, kvslots.MaxLabel)
		}
		for _, other := range all {
			if other.Name == token.Name && token.Name != "" || other.Token == token.Token {
				return nil, Usagef("--%s: line %d has the name or the token of an earlier one", TokenFileFlag, number)
			}
		}
		all = append(all, token)
	}
	if len(all) == 0 {
		return nil, Usagef("--%s: the file has no token: a line is %s", TokenFileFlag, tokenLine)
	}
	return all, nil
}

// checkToken returns an error unless the token can be one word of a header. The error
// does not contain the token.
func checkToken(name, token string) error {
	odd := strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
	if token == "" || len(token) > maxToken || odd {
		return Usagef("%s must be 1 to %d ASCII characters, without spaces and control characters", name, maxToken)
	}
	return nil
}

// ReadSecret reads a file with a secret, which may be a pipe: a shell's <(command). The name
// - is stdin. Its error does not contain path.
func ReadSecret(stdin io.Reader, path string) ([]byte, error) {
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, WithoutPath(err)
		}
		defer file.Close()
		stdin = file
	}
	content, err := readAll(stdin)
	return content, WithoutPath(err)
}
