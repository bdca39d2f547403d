package settings

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// Each flag whose help advises against the command line has a secret, and each that needs others names flags.
func TestMarks(t *testing.T) {
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	NewServe(flags)
	flags.VisitAll(func(flag *pflag.Flag) {
		if advised := strings.Contains(flag.Usage, "better given as "+EnvName(flag.Name)); advised != secret.of(flag) {
			t.Errorf("--%s: secret %v", flag.Name, secret.of(flag))
		}
		for i, needed := range flag.Annotations[needsRule] {
			if i > 0 && flags.Lookup(needed) == nil { // the first is the reason
				t.Errorf("--%s needs --%s, which does not exist", flag.Name, needed)
			}
		}
	})
}
