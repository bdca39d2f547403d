package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/gateway"
)

const (
	tokenFlag     = "auth-token"
	tokenFileFlag = "auth-token-file"

	// maxToken is the maximal length of a token in bytes. Two of them are less than
	// maxSecretFile, so that a longer file is refused, and not cut off.
	maxToken = 1000
)

// authToken is the bearer token that serve requires of HTTP requests, or that other
// commands send. It is a secret: no log line and no error contains it.
type authToken struct {
	value  string
	second string // that serve accepts as well; only from a file
	file   string
	again  bool // read the file as one that is read again later: it must be a regular one
}

func (a *authToken) addFlags(flags *pflag.FlagSet, usage string) {
	flags.StringVar(&a.value, tokenFlag, "", usage+"; better given as "+envName(tokenFlag)+", or in a file")
	flags.StringVar(&a.file, tokenFileFlag, "", "file with the bearer token; - is standard input")
}

// load reads the file, if one was given, and checks the token. An empty token is an
// error if it was given: an unset shell variable must not disable access control.
func (a *authToken) load(flags *pflag.FlagSet, stdin io.Reader) error {
	switch {
	case flags.Changed(tokenFileFlag) && a.again && a.isFile():
		err := withoutHanging(func() error { return a.read(nil) })
		if errors.Is(err, errHangs) {
			err = fileFailed(err)
		}
		return err
	case flags.Changed(tokenFileFlag):
		return a.read(stdin)
	case flags.Changed(tokenFlag):
		return checkToken("--"+tokenFlag, a.value)
	}
	return nil
}

// read reads the file: one line, or two while tokens are being replaced, of which
// commands send the first.
func (a *authToken) read(stdin io.Reader) error {
	content, err := a.content(stdin)
	if err != nil {
		return fileFailed(err)
	}
	one, other, two := strings.Cut(strings.TrimSuffix(content, "\n"), "\n")
	if strings.Contains(other, "\n") {
		return usagef("--%s has more than two lines", tokenFileFlag)
	}
	one, other = strings.TrimSuffix(one, "\r"), strings.TrimSuffix(other, "\r")
	if err := checkToken("the content of --"+tokenFileFlag, one); err != nil {
		return err
	}
	if two {
		if err := checkToken("the second line of --"+tokenFileFlag, other); err != nil {
			return err
		}
	}
	a.value, a.second = one, other
	return nil
}

func (a *authToken) content(stdin io.Reader) (string, error) {
	if !a.again || !a.isFile() {
		return readSecret(stdin, a.file)
	}
	content, err := readRegular(a.file)
	return string(content), withoutPath(err)
}

func fileFailed(err error) error {
	return exitError{exitFailed, fmt.Errorf("--%s: %w", tokenFileFlag, err)}
}

// given reports whether a token was given, or a file with one.
func (a *authToken) given() bool { return a.value != "" || a.file != "" }

// isFile reports whether the token can be read again.
func (a *authToken) isFile() bool { return a.file != "" && a.file != "-" }

// reloadInto returns a function that reads the file again, for a reloader.
func (a *authToken) reloadInto(tokens *gateway.Tokens) func() (changed bool, err error) {
	current := *a
	current.again = true
	return func() (bool, error) {
		read := current
		if err := read.read(nil); err != nil || read == current {
			return false, err
		}
		current = read
		tokens.Replace(read.all()...)
		return true, nil
	}
}

func (a *authToken) all() []string {
	if a.second == "" {
		return []string{a.value}
	}
	return []string{a.value, a.second}
}

// checkToken returns an error unless the token can be one word of a header. The error
// does not contain the token.
func checkToken(name, token string) error {
	odd := strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
	if token == "" || len(token) > maxToken || odd {
		return usagef("%s must be 1 to %d ASCII characters, without spaces and control characters", name, maxToken)
	}
	return nil
}
