//go:build unix && !(linux && (amd64 || arm64))

package underlease

import (
	"os"
	"syscall"
)

// Go's runtime does not touch signals that are ignored when the process starts: SIGHUP, SIGINT, SIGTTIN, SIGTTOU.
func ignoreIgnored() {}

func recordOrigins([]os.Signal) {}

func fromTerminal(sig os.Signal) bool { return sig == syscall.SIGINT || sig == syscall.SIGQUIT }
