package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

const (
	tokenFlag     = "auth-token"
	tokenFileFlag = "auth-token-file"

	// maxToken is the longest token in bytes. It is less than maxSecretFile, so
	// that a file that was cut off is refused.
	maxToken = 1000
)

// authToken is the bearer token that serve requires of HTTP requests, or that the
// other commands send. It is a secret: never logged, and in no error.
type authToken struct {
	value string
	file  string
}

func (a *authToken) addFlags(flags *pflag.FlagSet, usage string) {
	flags.StringVar(&a.value, tokenFlag, "", usage+"; better given as "+envName(tokenFlag)+", or in a file")
	flags.StringVar(&a.file, tokenFileFlag, "", "file with that token; - is standard input")
}

// load reads the file, if one was given, and checks the token. A token that was
// given but is empty is an error: a shell variable that is not set must not
// switch off access control.
func (a *authToken) load(flags *pflag.FlagSet, stdin io.Reader) error {
	switch {
	case flags.Changed(tokenFileFlag):
		content, err := readSecret(stdin, a.file)
		if err != nil {
			return exitError{exitFailed, fmt.Errorf("--%s: %w", tokenFileFlag, err)}
		}
		a.value = strings.TrimSuffix(strings.TrimSuffix(content, "\n"), "\r")
		return checkToken("the content of --"+tokenFileFlag, a.value)
	case flags.Changed(tokenFlag):
		return checkToken("--"+tokenFlag, a.value)
	}
	return nil
}

// checkToken accepts what a header can carry as one word. Its error does not
// repeat the token.
func checkToken(name, token string) error {
	odd := strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
	if token == "" || len(token) > maxToken || odd {
		return usagef("%s must be 1 to %d ASCII characters, without spaces and control characters", name, maxToken)
	}
	return nil
}
