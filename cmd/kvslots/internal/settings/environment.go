package settings

import (
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

type Environment map[string]string

func ProcessEnvironment() Environment {
	env := Environment{}
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		if runtime.GOOS == "windows" { // where case does not matter
			name = strings.ToUpper(name)
		}
		env[name] = value
	}
	return env
}

const envPrefix = "KVSLOTS_"

// EnvName returns the environment variable of a flag: KVSLOTS_HTTP_ADDR for http-addr.
func EnvName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// The environment variables of the pool and of the lease, used if there is no argument.
const (
	PoolVariable  = "KVSLOTS_POOL"
	LeaseVariable = "KVSLOTS_LEASE"
)

// applyEnvironment sets flags from environment variables. It ignores empty ones.
func applyEnvironment(flags *pflag.FlagSet, env Environment) error {
	decidedBefore, err := decided(flags)
	if err != nil {
		return err
	}
	var found problems
	flags.VisitAll(func(flag *pflag.Flag) {
		name := EnvName(flag.Name)
		if decidedBefore[flag.Name] || env[name] == "" || flag.Name == "help" {
			return
		}
		if err := set(flag, env[name], fromEnvironment, name); err != nil {
			found.add(Usagef("%s: %w", name, err))
		}
	})
	_, err = decided(flags)
	found.add(err)
	return found.err()
}

// notSettings matches variables that are no settings: those of the pool, of a lease or slot, of
// compose files, and of tests.
var notSettings = regexp.MustCompile(`^KVSLOTS_(POOL|LEASES?|SLOT|POSITIONS?|FENCES?|EXPIRES_IN|IMAGE|SOAK|TEST_.*)$`)

// Unknown returns the variables, in order, that look like settings but belong to no flag of
// any command of the program: they may be misspelled.
func (e Environment) Unknown(program *cobra.Command) []string {
	known := map[string]bool{}
	var visit func(*cobra.Command)
	visit = func(command *cobra.Command) {
		command.Flags().VisitAll(func(flag *pflag.Flag) { known[EnvName(flag.Name)] = true })
		for _, below := range command.Commands() {
			visit(below)
		}
	}
	visit(program)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(e)), func(name string) bool {
		return !isSetting(name) || e[name] == "" || known[name]
	})
}

func isSetting(variable string) bool {
	return strings.HasPrefix(variable, envPrefix) && !notSettings.MatchString(variable)
}

// credential matches the environment variables of kvslots that hold a secret. It matches by the last words of
// the name, so that it also covers flags that are added later. The names of files with secrets are none.
var credential = regexp.MustCompile(`^KVSLOTS_.*(TOKENS?|PASSWORD|SECRET|USER)$`)

// WithoutSecrets returns the environment that "run" passes on to its command: without
// the credentials of kvslots, and without URLs that contain user information.
func WithoutSecrets(environment []string) []string {
	return without(environment, func(name, value string) bool {
		isURL := name == EnvName(serverFlag) || name == EnvName(natsURLFlag)
		return credential.MatchString(name) || isURL && strings.Contains(value, "@")
	})
}

func WithoutSettings(environment []string) []string {
	return without(environment, func(name, _ string) bool { return isSetting(name) })
}

func without(environment []string, left func(name, value string) bool) []string {
	return slices.DeleteFunc(slices.Clone(environment), func(variable string) bool {
		name, value, _ := strings.Cut(variable, "=")
		return left(name, value)
	})
}
