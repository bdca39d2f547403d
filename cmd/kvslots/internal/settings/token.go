package settings

import (
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/gateway"
)

const (
	tokenFlag = "auth-token"

	TokenFileFlag = tokenFlag + fileSuffix

	ReadTokenFlag     = "read-token"
	ReadTokenFileFlag = ReadTokenFlag + fileSuffix

	fileSuffix = "-file"

	// maxToken is the maximal length of a token in bytes. Two of them are less than
	// maxSecretFile, so that a longer file is refused, and not cut off.
	maxToken = 1000

	// maxSecretFile bounds how much is read of a file with a secret, in bytes.
	maxSecretFile = 4096
)

// Token is the bearer token that serve requires of HTTP requests, or that other
// commands send. It is a secret: no log line and no error contains it.
type Token struct {
	tokenFile        // that may replace it
	Value     string // the first, which commands send
	again     bool   // serve reads the file again later: it must be a regular one
}

func (t *Token) addFlags(flags *pflag.FlagSet, name, usage string) {
	kind := "bearer token"
	if name == ReadTokenFlag {
		kind = "bearer token that may only read"
	}
	t.flag = name + fileSuffix
	flags.StringVar(&t.Value, name, "", usage+"; better given as "+EnvName(name)+", or in a file")
	flags.StringVar(&t.path, t.flag, "", "file with the "+kind+"; - is standard input")
}

// loadFirst reads the file, if one was given, and checks the token. An empty token is an
// error if it was given: an unset shell variable must not disable access control.
func (t *Token) loadFirst(flags *pflag.FlagSet, stdin io.Reader) (err error) {
	switch name := strings.TrimSuffix(t.flag, fileSuffix); {
	case flags.Changed(t.flag):
		read := readFile
		if !t.again || !t.IsFile() {
			read = func(path string) ([]byte, error) { return ReadSecret(stdin, path) }
		}
		if _, err = t.load(read); err == nil {
			t.Value = t.all[0].Token
		}
	case flags.Changed(name):
		t.all, err = []gateway.Token{{Token: t.Value, ReadOnly: name == ReadTokenFlag}}, checkToken("--"+name, t.Value)
	}
	return err
}

// Given reports whether a token was given, or a file with one.
func (t *Token) Given() bool { return t.Value != "" || t.tokenFile.Given() }

// parseTokens parses the content of a file: one line, or two while tokens are being replaced, of
// which commands send the first.
func parseTokens(flag, content string) ([]gateway.Token, error) {
	lines := strings.Split(strings.TrimSuffix(content, "\n"), "\n")
	if len(lines) > 2 {
		return nil, Usagef("--%s has more than two lines", flag)
	}
	var all []gateway.Token
	for i, line := range lines {
		token := strings.TrimSuffix(line, "\r")
		if err := checkToken([]string{"the content", "the second line"}[i]+" of --"+flag, token); err != nil {
			return nil, err
		}
		all = append(all, gateway.Token{Token: token, ReadOnly: flag == ReadTokenFileFlag})
	}
	return all, nil
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

// checkToken returns an error unless the token can be one word of a header. The error
// does not contain the token.
func checkToken(name, token string) error {
	odd := strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
	if token == "" || len(token) > maxToken || odd {
		return Usagef("%s must be 1 to %d ASCII characters, without spaces and control characters", name, maxToken)
	}
	return nil
}
