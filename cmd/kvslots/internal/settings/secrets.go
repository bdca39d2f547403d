package settings

import (
	"os"
	"regexp"
	"runtime"
	"slices"

	"github.com/spf13/pflag"
)

// secretFlags are the flags of serve with secrets. --nats-url may contain a password.
var secretFlags = []string{tokenFlag, ReadTokenFlag, "nats-password", "nats-token", "forrst-fn-password"}

// userInfo matches a user, password or token in a list of URLs.
var userInfo = regexp.MustCompile(`(^|//|, *)[^/,]*@`)

// isSecret reports whether the value of a flag is or contains a secret.
func isSecret(flag, value string) bool {
	return slices.Contains(secretFlags, flag) || flag == natsURLFlag && userInfo.MatchString(value)
}

// withSecret is the annotation of --config if the file has a secret.
const withSecret = "kvslots_with_secret"

// WritableSecrets returns the flags of serve whose file has a secret, and may be written by
// every user of the machine, who could replace the secret. Files that every user may read are
// common where a supervisor mounts them for one process alone.
func WritableSecrets(flags *pflag.FlagSet) (names []string) {
	for _, name := range []string{configFlag, TokenFileFlag, ReadTokenFileFlag, TokensFileFlag, "tls-key", "nats-creds", "nats-nkey", "nats-tls-key"} {
		flag := flags.Lookup(name)
		if flag.Value.String() == "" || name == configFlag && flag.Annotations[withSecret] == nil {
			continue
		}
		const others = 0o002
		if info, err := os.Stat(flag.Value.String()); err == nil && info.Mode()&others != 0 && runtime.GOOS != "windows" {
			names = append(names, name)
		}
	}
	return names
}
