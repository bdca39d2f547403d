package settings

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

const (
	tokenFlag = "auth-token"

	// TokenFileFlag is the name of the flag of a token's file.
	TokenFileFlag = tokenFlag + fileSuffix

	// ReadTokenFlag and ReadTokenFileFlag are the same of the token of readers.
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
	flag   string // the name of its flag; "": tokenFlag
	Value  string
	second string // that serve accepts as well; only from a file
	file   string
	again  bool // serve reads the file again later: it must be a regular one
}

func (t *Token) name() string { return cmp.Or(t.flag, tokenFlag) }

func (t *Token) fileFlag() string { return t.name() + fileSuffix }

func (t *Token) addFlags(flags *pflag.FlagSet, usage string) {
	flags.StringVar(&t.Value, t.name(), "", usage+"; better given as "+EnvName(t.name())+", or in a file")
	flags.StringVar(&t.file, t.fileFlag(), "", "file with the "+t.kind()+"; - is standard input")
}

func (t *Token) kind() string {
	if t.flag == ReadTokenFlag {
		return "bearer token that may only read"
	}
	return "bearer token"
}

// load reads the file, if one was given, and checks the token. An empty token is an
// error if it was given: an unset shell variable must not disable access control.
func (t *Token) load(flags *pflag.FlagSet, stdin io.Reader) error {
	switch {
	case flags.Changed(t.fileFlag()) && t.again && t.IsFile():
		return t.read(readFile)
	case flags.Changed(t.fileFlag()):
		return t.read(func(path string) ([]byte, error) { return ReadSecret(stdin, path) })
	case flags.Changed(t.name()):
		return checkToken("--"+t.name(), t.Value)
	}
	return nil
}

// read reads the file: one line, or two while tokens are being replaced, of which
// commands send the first.
func (t *Token) read(read func(path string) ([]byte, error)) error {
	content, err := read(t.file)
	if err != nil {
		return fmt.Errorf("--%s: %w", t.fileFlag(), WithoutPath(err))
	}
	one, other, two := strings.Cut(strings.TrimSuffix(string(content), "\n"), "\n")
	if strings.Contains(other, "\n") {
		return Usagef("--%s has more than two lines", t.fileFlag())
	}
	one, other = strings.TrimSuffix(one, "\r"), strings.TrimSuffix(other, "\r")
	if err := checkToken("the content of --"+t.fileFlag(), one); err != nil {
		return err
	}
	if two {
		if err := checkToken("the second line of --"+t.fileFlag(), other); err != nil {
			return err
		}
	}
	t.Value, t.second = one, other
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

// Given reports whether a token was given, or a file with one.
func (t *Token) Given() bool { return t.Value != "" || t.file != "" }

// IsFile reports whether the token can be read again.
func (t *Token) IsFile() bool { return t.file != "" && t.file != "-" }

// Reload reads the file again, and reports whether the tokens have changed. After an error
// they are as before.
func (t *Token) Reload() (changed bool, err error) {
	loaded := *t
	if err := loaded.read(readRegular); err != nil || loaded == *t {
		return false, err
	}
	*t = loaded
	return true, nil
}

// All returns the tokens, one or two.
func (t *Token) All() []string {
	if t.second == "" {
		return []string{t.Value}
	}
	return []string{t.Value, t.second}
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
