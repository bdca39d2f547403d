package settings

import (
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Group is a group of flags of one command.
type Group interface {
	// check checks the rules between the flags, and reads the token. Its result has an error
	// for each rule that is broken.
	check(flags *pflag.FlagSet, stdin io.Reader) error
}

// Load sets each flag of a command that was not given on the command line from its
// environment variable, or else from the configuration file of --config. Then it checks the
// group. The result has an error for each setting that is wrong; see ErrorText.
func Load(command *cobra.Command, env Environment, of Group) error {
	if err := applySources(command.Flags(), env); err != nil {
		return err
	}
	return of.check(command.Flags(), command.InOrStdin())
}

func applySources(flags *pflag.FlagSet, env Environment) error {
	return errors.Join(applyEnvironment(flags, env), applyFile(flags))
}

const (
	fromDefault     = "default"
	fromCommandLine = "command line"
	fromEnvironment = "environment"
	fromFile        = "file"
)

// setBy is the annotation of a flag that the environment or the file has set, with the source
// and the name that the flag has there.
const setBy = "kvslots_set_by"

// set sets a flag and marks it as given, even if the value is invalid, so that no further
// source sets it.
func set(flag *pflag.Flag, value, source, name string) error {
	flag.Changed = true
	if flag.Annotations == nil {
		flag.Annotations = map[string][]string{}
	}
	flag.Annotations[setBy] = []string{source, name}
	return withoutText(flag.Value.Set(value))
}

// sourceOf returns where the value of a flag comes from.
func sourceOf(flag *pflag.Flag) string {
	switch by := flag.Annotations[setBy]; {
	case by != nil:
		return by[0]
	case flag.Changed:
		return fromCommandLine
	}
	return fromDefault
}

// alternatives are pairs that exclude each other. The source with the higher precedence decides
// for one of a pair.
var alternatives = [][2]string{
	{tokenFlag, TokenFileFlag},
	{serverFlag, natsURLFlag},
	{"no-wait", "wait"},
	{"command", afterDash},
	{"jid", "force"},
	{"revision", "force"},
}

// afterDash is the name, among those of flags, of a command that is given after --.
const afterDash = "--"

// decided returns the flags that a source of lower precedence must not set: given flags
// and their alternatives. It returns an error if both of a pair were given.
func decided(flags *pflag.FlagSet) (map[string]bool, error) {
	changed := map[string]bool{afterDash: flags.ArgsLenAtDash() >= 0 && flags.ArgsLenAtDash() < flags.NArg()}
	flags.VisitAll(func(flag *pflag.Flag) { changed[flag.Name] = flag.Changed })
	names := maps.Clone(changed)
	for _, pair := range alternatives {
		one, other := changed[pair[0]], changed[pair[1]]
		if one && other && !isOff(flags.Lookup(pair[0])) && !isOff(flags.Lookup(pair[1])) {
			return nil, excluded(pair[0], pair[1])
		}
		names[pair[0]], names[pair[1]] = names[pair[0]] || other, names[pair[1]] || one
	}
	return names, nil
}

func excluded(one, other string) error {
	if other == afterDash {
		return Usagef("--%s and a command after -- exclude each other", one)
	}
	return Usagef("--%s and --%s exclude each other", one, other)
}

// isOff reports whether a flag that was given is merely switched off. flag may be nil.
func isOff(flag *pflag.Flag) bool {
	return flag != nil && slices.Contains([]string{"false", "0"}, flag.Value.String())
}

// isGiven reports whether a flag was given, and not merely switched off. flag may be nil.
func isGiven(flag *pflag.Flag) bool {
	return flag != nil && flag.Changed && flag.Value.String() != "" && !isOff(flag)
}

// given returns those flags that were given.
func given(flags *pflag.FlagSet, names ...string) (found []string) {
	for _, name := range names {
		if isGiven(flags.Lookup(name)) {
			found = append(found, "--"+name)
		}
	}
	return found
}
