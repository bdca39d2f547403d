package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// UsageError is an error in the arguments or settings.
type UsageError struct{ error }

func (e UsageError) Unwrap() error { return e.error }

func Usagef(format string, v ...any) error { return UsageError{fmt.Errorf(format, v...)} }

// problems collects errors in settings, so that an operator sees all of them at once.
type problems []error

func (p *problems) add(err error) {
	if err != nil {
		*p = append(*p, err)
	}
}

// when adds a UsageError if the settings are wrong.
func (p *problems) when(wrong bool, format string, v ...any) {
	if wrong {
		p.add(Usagef(format, v...))
	}
}

func (p problems) err() error { return errors.Join(p...) }

// WithoutPath returns the operating system's error without the name of the file. A
// secret may have been given in place of the name.
func WithoutPath(err error) error {
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

// FlagError replaces the errors of pflag that repeat what was given: it may be a secret
// that was meant for another flag.
func FlagError(_ *cobra.Command, err error) error {
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

// ErrorText returns the text of an error about a command. It names each flag that was set by an
// environment variable, or by a key of the file, as that variable or key: as the operator
// knows it.
func ErrorText(flags *pflag.FlagSet, err error) string {
	return flagName.ReplaceAllStringFunc(err.Error(), func(name string) string {
		if flag := flags.Lookup(name[2:]); flag != nil && flag.Annotations[setBy] != nil {
			return flag.Annotations[setBy][1]
		}
		return name
	})
}

var flagName = regexp.MustCompile(`--[a-z]+(?:-[a-z]+)*`)
