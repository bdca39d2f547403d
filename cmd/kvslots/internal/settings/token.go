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
	readTokenFlag = "read-token" // of readers
	fileSuffix    = "-file"

	TokenFileFlag = tokenFlag + fileSuffix

	// tokensFileFlag is the name of the flag of a file with the tokens of operators.
	tokensFileFlag = "tokens-file"

	// maxToken is the maximal length of a token in bytes. Two of them are less than
	// maxSecretFile, so that a longer file is refused, and not cut off.
	maxToken = 1000

	// maxSecretFile bounds how much is read of a file with a secret, in bytes.
	maxSecretFile = 4096
)

// Token is a bearer token that serve requires of clients, or that other commands send. It is
// a secret: no log line and no error contains it.
type Token struct {
	Value string // the first, which commands send
	flag  string
	path  string // of a file that may replace it
}

func (t *Token) addFlags(flags table, name, usage, fileUsage string, marks ...mark) {
	t.flag = name
	flags.row(name, plain(&t.Value, ""), usage+"; better given as "+EnvName(name)+", or in a file", append(marks, secret)...)
	flags.row(t.fileFlag(), plain(&t.path, ""), fileUsage+"; - is standard input", append(marks, secretFile)...)
}

func (t *Token) fileFlag() string { return t.flag + fileSuffix }

// load reads the file, if one was given, and returns the tokens. An empty token is an error
// if it was given: an unset shell variable must not disable access control.
func (t *Token) load(flags *pflag.FlagSet, stdin io.Reader) (all []gateway.Token, err error) {
	switch {
	case flags.Changed(t.fileFlag()):
		content, err := ReadSecret(stdin, t.path)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", t.fileFlag(), err)
		}
		if all, err = t.parse(t.fileFlag(), string(content)); err != nil {
			return nil, err
		}
		t.Value = all[0].Token
	case flags.Changed(t.flag):
		all, err = []gateway.Token{t.token(t.Value)}, checkToken("--"+t.flag, t.Value)
	}
	return all, err
}

// Given reports whether a token was given, or a file with one.
func (t *Token) Given() bool { return t.Value != "" || t.path != "" }

func (t *Token) token(text string) gateway.Token {
	return gateway.Token{Token: text, ReadOnly: t.flag == readTokenFlag}
}

// parse parses the content of a file: one line, or two while tokens are being replaced, of
// which commands send the first.
func (t *Token) parse(flag, content string) (all []gateway.Token, err error) {
	lines := strings.Split(strings.TrimSuffix(content, "\n"), "\n")
	if len(lines) > 2 {
		return nil, Usagef("--%s has more than two lines", flag)
	}
	for i, line := range lines {
		token := strings.TrimSuffix(line, "\r")
		if err := checkToken([]string{"the content", "the second line"}[i]+" of --"+flag, token); err != nil {
			return nil, err
		}
		all = append(all, t.token(token))
	}
	return all, nil
}

// parseOperators parses lines NAME read|admin TOKEN. It returns an error without any text of the
// file, since that has secrets.
func parseOperators(flag, content string) (all []gateway.Token, err error) {
	number := 0
	for line := range strings.Lines(content) {
		number++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) != 3 || words[1] != "read" && words[1] != "admin" || checkToken("", words[2]) != nil {
			return nil, Usagef("--%s: line %d must be NAME read TOKEN, or NAME admin TOKEN; a token is 1 to %d ASCII characters", flag, number, maxToken)
		}
		if o := new(kvslots.Options); kvslots.WithOperator(words[0])(o) != nil {
			return nil, Usagef("--%s: line %d: a name is up to %d ASCII characters without quotes and backslashes", flag, number, kvslots.MaxLabel)
		}
		for _, other := range all {
			if other.Name == words[0] || other.Token == words[2] {
				return nil, Usagef("--%s: line %d has the name or the token of an earlier one", flag, number)
			}
		}
		all = append(all, gateway.Token{Name: words[0], Token: words[2], ReadOnly: words[1] == "read"})
	}
	if len(all) == 0 {
		return nil, Usagef("--%s: the file has no token: a line is NAME read TOKEN, or NAME admin TOKEN", flag)
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
	content, err := io.ReadAll(io.LimitReader(stdin, maxSecretFile))
	return content, WithoutPath(err)
}
