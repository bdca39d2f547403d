package settings

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Check reads the settings of serve beyond the first error.
type Check struct {
	*Serve
	flags   *pflag.FlagSet
	parsing bool            // the command line
	wrong   map[string]bool // flags that were set to an invalid value
	found   problems
}

// NewCheck declares the flags of serve for a command. Until Run is called, an invalid value
// does not end the parsing of the command line.
func NewCheck(flags *pflag.FlagSet) *Check {
	c := &Check{Serve: NewServe(flags), flags: flags, parsing: true, wrong: map[string]bool{}}
	flags.VisitAll(func(flag *pflag.Flag) { flag.Value = toleratedValue{flag.Value, flag.Name, c} })
	return c
}

// toleratedValue is a flag's value that notes whether it is invalid.
type toleratedValue struct {
	pflag.Value
	flag  string
	check *Check
}

func (v toleratedValue) Set(text string) error {
	err := withoutText(v.Value.Set(text))
	v.check.wrong[v.flag] = v.check.wrong[v.flag] || err != nil
	if err != nil && v.check.parsing {
		v.check.found.add(Usagef("--%s: %w", v.flag, err))
		return nil
	}
	return err // which its caller collects
}

// Run returns an error with everything that is wrong, including the files that flags name.
func (c *Check) Run(env Environment, stdin io.Reader) error {
	c.parsing = false
	c.found.add(applySources(c.flags, env))
	_, err := c.NATS.Options()
	for _, err := range append(split(c.check(c.flags, stdin)), split(err)...) {
		// A broken rule about a flag with an invalid value is about the flag's default.
		if !slices.ContainsFunc(flagName.FindAllString(err.Error(), -1), func(name string) bool { return c.wrong[name[2:]] }) {
			c.found.add(err)
		}
	}
	return c.found.err()
}

// Print prints the settings as a configuration file. Secrets, empty settings, those that are
// not used, and the path of the file are comments.
func (c *Check) Print(w io.Writer) error {
	var lines strings.Builder
	c.flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Name != "help" {
			lines.WriteString(c.line(flag) + "\n")
		}
	})
	_, err := io.WriteString(w, lines.String())
	return err
}

func (c *Check) line(flag *pflag.Flag) string {
	value, by := flag.Value.String(), flag
	if port := c.flags.Lookup("http-port"); flag.Name == "http-addr" && port.Changed {
		by = port
	}
	source := "  # " + sourceOf(by)
	switch {
	case value == "":
		return "# " + flag.Name + ":"
	case secret.of(flag):
		return "# " + flag.Name + ": (secret)" + source
	case isSecret(flag, value):
		return "# " + flag.Name + ": " + userInfo.ReplaceAllString(value, "$1") + " (and a secret)" + source
	case flag.Name == configFlag,
		c.NATS.URL != "" && embedded.of(flag),      // not used
		flag.Name == replicasFlag && !flag.Changed: // given, it would be demanded of the bucket
		return "# " + flag.Name + ": " + value + source
	}
	return flag.Name + ": " + quoted(flag.Value) + source
}

func quoted(value pflag.Value) string {
	switch value.Type() {
	case "bool", "int", "number", "duration":
		return value.String()
	}
	return "'" + strings.ReplaceAll(value.String(), "'", "''") + "'"
}
