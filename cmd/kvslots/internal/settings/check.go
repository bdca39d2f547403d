package settings

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Check reads the settings of serve beyond the first error.
type Check struct {
	flags   *pflag.FlagSet
	of      *Serve
	parsing bool            // the command line
	wrong   map[string]bool // flags that were set to an invalid value
	found   problems
}

// NewCheck declares the flags of serve for a command. Until Run is called, an invalid value
// does not end the parsing of the command line.
func NewCheck(flags *pflag.FlagSet) *Check {
	c := &Check{flags: flags, of: DefaultServe(), parsing: true, wrong: map[string]bool{}}
	c.of.AddFlags(flags)
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
	if err == nil {
		return nil
	}
	v.check.wrong[v.flag] = true
	if !v.check.parsing {
		return err // which its caller collects
	}
	v.check.found.add(Usagef("--%s: %w", v.flag, err))
	return nil
}

// Run returns an error with everything that is wrong, including the files that flags name.
func (c *Check) Run(env Environment, stdin io.Reader) error {
	c.parsing = false
	c.found.add(applySources(c.flags, env))
	rules := split(c.of.check(c.flags, stdin))
	_, err := c.of.TLS.Load()
	rules = append(rules, split(err)...)
	_, err = c.of.NATS.Options()
	rules = append(rules, split(err)...)
	for _, err := range rules {
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
	source, value := "  # "+c.sourceOf(flag), flag.Value.String()
	switch withoutSecret := userInfo.ReplaceAllString(value, "$1"); {
	case value == "":
		return "# " + flag.Name + ":"
	case slices.Contains(secretFlags, flag.Name):
		return "# " + flag.Name + ": (secret)" + source
	case flag.Name == natsURLFlag && withoutSecret != value:
		return "# " + flag.Name + ": " + withoutSecret + " (and a secret)" + source
	case flag.Name == configFlag,
		c.of.NATS.URL != "" && slices.Contains(embeddedOnly, flag.Name), // not used
		flag.Name == replicasFlag && !flag.Changed:                      // given, it would be demanded of the bucket
		return "# " + flag.Name + ": " + value + source
	}
	return flag.Name + ": " + quoted(flag.Value) + source
}

// sourceOf returns where the value of a flag comes from. --http-port also sets --http-addr.
func (c *Check) sourceOf(flag *pflag.Flag) string {
	if port := c.flags.Lookup("http-port"); flag.Name == "http-addr" && port.Changed {
		flag = port
	}
	return sourceOf(flag)
}

func quoted(value pflag.Value) string {
	switch value.Type() {
	case "bool", "int", "number", "duration":
		return value.String()
	}
	return "'" + strings.ReplaceAll(value.String(), "'", "''") + "'"
}
