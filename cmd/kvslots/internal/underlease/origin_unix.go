//go:build unix && !(linux && (amd64 || arm64))

package underlease

import (
	"os"
	"syscall"
)

// Without it the command inherits that SIGHUP, SIGINT, SIGTTIN and SIGTTOU are ignored: Go's runtime does not touch these.
func ignoreIgnored() {}

func recordOrigins([]os.Signal) {}

func fromTerminal(sig os.Signal) bool { return sig == syscall.SIGINT || sig == syscall.SIGQUIT }
