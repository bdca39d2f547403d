package settings

import (
	"os"
	"regexp"
	"runtime"

	"github.com/spf13/pflag"
)

// userInfo matches a user, password or token in a list of URLs.
var userInfo = regexp.MustCompile(`(^|//|, *)[^/,]*@`)

// isSecret reports whether the value of a flag is or contains a secret: --nats-url may contain
// a password.
func isSecret(flag *pflag.Flag, value string) bool {
	return secret.of(flag) || flag.Name == natsURLFlag && userInfo.MatchString(value)
}

// WritableSecrets returns the flags whose file has a secret, and may be written by every user
// of the machine, who could replace the secret. Files that every user may read are common
// where a supervisor mounts them for one process alone.
func WritableSecrets(flags *pflag.FlagSet) (names []string) {
	flags.VisitAll(func(flag *pflag.Flag) {
		if !secretFile.of(flag) || runtime.GOOS == "windows" {
			return
		}
		const others = 0o002
		if info, err := os.Stat(flag.Value.String()); err == nil && info.Mode()&others != 0 {
			names = append(names, flag.Name)
		}
	})
	return names
}
