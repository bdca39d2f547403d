package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/gateway"
)

const (
	tokenFlag     = "auth-token"
	tokenFileFlag = "auth-token-file"

	// maxToken is the maximal length of a token in bytes. It is less than
	// maxSecretFile, so that a longer file is refused, and not cut off.
	maxToken = 1000
)

// authToken is the bearer token that serve requires of HTTP requests, or that other
// commands send. It is a secret: no log line and no error contains it.
type authToken struct {
	value string
	file  string
}

func (a *authToken) addFlags(flags *pflag.FlagSet, usage string) {
	flags.StringVar(&a.value, tokenFlag, "", usage+"; better given as "+envName(tokenFlag)+", or in a file")
	flags.StringVar(&a.file, tokenFileFlag, "", "file with the bearer token; - is standard input")
}

// load reads the file, if one was given, and checks the token. An empty token is an
// error if it was given: an unset shell variable must not disable access control.
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

// given reports whether a token was given, or a file with one.
func (a *authToken) given() bool { return a.value != "" || a.file != "" }

// checkToken returns an error unless the token can be one word of a header. The error
// does not contain the token.
func checkToken(name, token string) error {
	odd := strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
	if token == "" || len(token) > maxToken || odd {
		return usagef("%s must be 1 to %d ASCII characters, without spaces and control characters", name, maxToken)
	}
	return nil
}

// tokens returns what serve requires of requests.
func (a *authToken) tokens() *gateway.Tokens {
	if a.value == "" {
		return nil
	}
	return gateway.NewTokens(a.value)
}
