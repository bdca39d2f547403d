package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/kvslots/subjects"
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

// withoutText returns an error of a flag's value without the value.
func withoutText(err error) error {
	number, ok := errors.AsType[*strconv.NumError](err)
	switch {
	case !ok:
		return err
	case number.Func == "ParseBool":
		return errors.New("must be true or false")
	}
	return number.Err
}

// flagError replaces the errors of pflag that repeat what was given: it may be a secret
// that was meant for another flag.
func flagError(_ *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return fmt.Errorf("invalid argument for %q flag: %w", "--"+invalid.GetFlag().Name, withoutText(errors.Unwrap(invalid)))
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

var quotedSubject = regexp.MustCompile(`"[^" ]+"`)

// withoutInboxes cuts off the subjects that an error of NATS quotes after their first
// token: the rest of an inbox is random, so that no other client can guess it, and so is
// that of the subject for confirmations. Other subjects of the service, and those of
// JetStream, which an operator may have to permit, have no secrets.
func withoutInboxes(text string) string {
	return quotedSubject.ReplaceAllStringFunc(text, func(quoted string) string {
		if strings.HasPrefix(quoted, `"`+subjects.Confirm) {
			return `"` + subjects.Confirm + `…"`
		}
		first, _, more := strings.Cut(quoted, ".")
		if !more || strings.HasPrefix(first, `"$`) || first == `"`+subjects.Service {
			return quoted
		}
		return first + `.…"`
	})
}

var lineNumber = regexp.MustCompile(`line \d+`)

// syntaxError replaces the error of a parser of the configuration file, which may quote
// the file: a password, for example. It keeps the position. The YAML parser has no
// column, may name the line before, and has no line for some errors in the first one.
func syntaxError(err error, content []byte) error {
	if toml, ok := errors.AsType[interface {
		error
		Position() (line, column int)
	}](err); ok {
		line, column := toml.Position()
		return syntaxErrorAt(line, column)
	}
	if json, ok := errors.AsType[*json.SyntaxError](err); ok {
		before := content[:max(json.Offset, 1)-1]
		return syntaxErrorAt(1+bytes.Count(before, []byte("\n")), len(before)-bytes.LastIndexByte(before, '\n'))
	}
	if line := lineNumber.FindString(err.Error()); line != "" {
		return fmt.Errorf("syntax error near %s", line)
	}
	return errors.New("syntax error")
}

func syntaxErrorAt(line, column int) error {
	return fmt.Errorf("syntax error in line %d, column %d", line, column)
}
