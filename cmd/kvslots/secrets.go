package main

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// credential matches the environment variables of kvslots that hold a secret, or the
// name of a file with one. It matches by the last words of the name, so that it also
// covers flags that are added later. KVSLOTS_…_NKEYS are public keys.
var credential = regexp.MustCompile(`^KVSLOTS_.*(TOKEN|PASSWORD|SECRET|CREDS|NKEY|USER|TLS_KEY)(_FILE)?$`)

// withoutSecrets returns the environment that "run" passes on to its command: without
// the credentials of kvslots, and without URLs that contain user information.
func withoutSecrets(environment []string) []string {
	return slices.DeleteFunc(slices.Clone(environment), func(variable string) bool {
		name, value, _ := strings.Cut(variable, "=")
		isURL := name == envName(serverFlag) || name == envName(natsURLFlag)
		return credential.MatchString(name) || isURL && strings.Contains(value, "@")
	})
}

// withoutPath returns the operating system's error without the name of the file. A
// secret may have been given in place of the name.
func withoutPath(err error) error {
	if outer, ok := errors.AsType[*fs.PathError](err); ok {
		return outer.Err
	}
	return err
}

// flagError replaces the errors of pflag that repeat what was given: it may be a secret
// that was meant for another flag.
func flagError(_ *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		cause := errors.Unwrap(invalid)
		if number, ok := errors.AsType[*strconv.NumError](cause); ok {
			cause = number.Err // without the text
		}
		return fmt.Errorf("invalid argument for %q flag: %w", "--"+invalid.GetFlag().Name, cause)
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedShortnames() != "" {
		return fmt.Errorf("unknown shorthand flag: -%s", unknown.GetSpecifiedName())
	}
	if _, ok := errors.AsType[*pflag.InvalidSyntaxError](err); ok {
		return errors.New("bad flag syntax")
	}
	return err
}

var anyUUID = regexp.MustCompile(`[0-9A-Fa-f]{8}(-?[0-9A-Fa-f]{4}){3}-?[0-9A-Fa-f]{12}`)

// withoutIDs replaces UUIDs in an error of cobra, which repeats arguments: the UUID of
// a pool or a lease is a credential.
func withoutIDs(text string) string { return anyUUID.ReplaceAllString(text, "…") }

var lineNumber = regexp.MustCompile(`line \d+`)

// withoutContent replaces the error of a parser of the configuration file, which may
// quote the file: a password, for example.
func withoutContent(err error) error {
	wrong, ok := errors.AsType[viper.ConfigParseError](err)
	if !ok {
		return err
	}
	if line := lineNumber.FindString(wrong.Error()); line != "" {
		return fmt.Errorf("syntax error in %s", line)
	}
	return errors.New("syntax error")
}
