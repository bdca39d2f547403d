package settings

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// Each flag whose help advises against the command line has a secret.
func TestSecretFlags(t *testing.T) {
	found := map[string]bool{}
	s, flags := DefaultServe(), pflag.NewFlagSet("serve", pflag.ContinueOnError)
	s.AddFlags(flags)
	flags.VisitAll(func(flag *pflag.Flag) {
		if strings.Contains(flag.Usage, "better given as "+EnvName(flag.Name)) {
			found[flag.Name] = true
		}
	})
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, slices.Sorted(slices.Values(secretFlags))) {
		t.Errorf("%q, and in secretFlags %q", got, secretFlags)
	}
}
