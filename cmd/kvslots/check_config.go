package main

import (
	"cmp"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func checkConfigCommand(env lookupEnv) *cobra.Command {
	s := defaultSettings()
	command := &cobra.Command{
		Use:   "check-config",
		Short: "Check the settings of serve, and print them",
		Long: "Read the same flags, environment variables and configuration file as serve, and report everything that is\n" +
			"wrong with them. If nothing is wrong, print a configuration file with all settings and their sources, but without\n" +
			"secrets. The command opens no connection, and does not use the data directory.",
		Args: cobra.NoArgs,
	}
	flags := command.Flags()
	s.addFlags(flags)
	c := tolerate(flags)
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := c.check(&s, env, command.InOrStdin()); err != nil {
			return err
		}
		return c.print(command.OutOrStdout())
	}
	return command
}

// configCheck reads settings beyond the first error.
type configCheck struct {
	flags   *pflag.FlagSet
	source  string            // the one that is setting flags
	sources map[string]string // of each flag that was set
	wrong   map[string]bool   // flags that were set to an invalid value
	found   problems          // of the command line
}

const commandLine = "command line"

// tolerate returns a check of flags. Until its method check is called, an invalid value
// does not end the parsing of the command line.
func tolerate(flags *pflag.FlagSet) *configCheck {
	c := &configCheck{flags: flags, source: commandLine, sources: map[string]string{}, wrong: map[string]bool{}}
	flags.VisitAll(func(flag *pflag.Flag) { flag.Value = toleratedValue{flag.Value, flag.Name, c} })
	return c
}

// toleratedValue is a flag's value that notes how it was set.
type toleratedValue struct {
	pflag.Value
	flag  string
	check *configCheck
}

func (v toleratedValue) Set(text string) error {
	v.check.sources[v.flag] = v.check.source
	err := withoutText(v.Value.Set(text))
	if err == nil {
		return nil
	}
	v.check.wrong[v.flag] = true
	if v.check.source != commandLine {
		return err // which its caller collects
	}
	v.check.found.add(usagef("--%s: %w", v.flag, err))
	return nil
}

// check returns an error with everything that is wrong.
func (c *configCheck) check(s *settings, env lookupEnv, stdin io.Reader) error {
	c.source = "environment"
	c.found.add(applyEnvironment(c.flags, env))
	c.source = "file"
	c.found.add(applyFile(c.flags))
	rules := split(s.validate())
	if !c.wrong[tokenFlag] && !c.wrong[tokenFileFlag] {
		rules.add(s.authToken.load(c.flags, stdin))
	}
	_, err := openCertificates(s.tls)
	rules.add(err)
	_, err = s.nats.options()
	rules.add(err)
	for _, err := range rules {
		// A broken rule about a flag with an invalid value is about the flag's default.
		if !slices.ContainsFunc(flagsIn(err.Error()), func(flag string) bool { return c.wrong[flag] }) {
			c.found.add(err)
		}
	}
	return c.found.err()
}

func flagsIn(text string) (names []string) {
	for _, match := range regexp.MustCompile(`--([a-z]+(?:-[a-z]+)*)`).FindAllStringSubmatch(text, -1) {
		names = append(names, match[1])
	}
	return names
}

// secretFlags are the flags of serve with secrets. --nats-url may contain a password.
var secretFlags = []string{tokenFlag, "nats-password", "nats-token", "forrst-fn-password"}

// print prints the settings as a configuration file. Secrets, empty settings and the path
// of the file are comments.
func (c *configCheck) print(w io.Writer) error {
	var lines strings.Builder
	c.flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Name != "help" {
			lines.WriteString(c.line(flag) + "\n")
		}
	})
	_, err := io.WriteString(w, lines.String())
	return err
}

func (c *configCheck) line(flag *pflag.Flag) string {
	source, value := "  # "+c.sourceOf(flag.Name), flag.Value.String()
	switch withoutSecret := userInfo.ReplaceAllString(value, "$1"); {
	case value == "":
		return "# " + flag.Name + ":"
	case slices.Contains(secretFlags, flag.Name):
		return "# " + flag.Name + ": (secret)" + source
	case flag.Name == natsURLFlag && withoutSecret != value:
		return "# " + flag.Name + ": " + withoutSecret + " (and a secret)" + source
	case flag.Name == configFlag:
		return "# " + flag.Name + ": " + value + source
	}
	return flag.Name + ": " + quoted(flag.Value) + source
}

// userInfo matches a user, password or token in a list of URLs.
var userInfo = regexp.MustCompile(`(^|//|, *)[^/,]*@`)

func (c *configCheck) sourceOf(flag string) string {
	source := c.sources[flag]
	if flag == "http-addr" { // which --http-port sets, too
		source = cmp.Or(source, c.sources["http-port"])
	}
	return cmp.Or(source, "default")
}

// quoted returns a value as YAML.
func quoted(value pflag.Value) string {
	switch value.Type() {
	case "bool", "int", "number", "duration":
		return value.String()
	}
	return "'" + strings.ReplaceAll(value.String(), "'", "''") + "'"
}
