//go:build linux && (amd64 || arm64) && !(go1.26 && !go1.27)

package underlease

var fwdSig [65]uintptr // see ignored_linux.go; only SIGHUP, SIGINT, SIGTSTP, SIGCONT, SIGTTIN and SIGTTOU are known to be ignored
