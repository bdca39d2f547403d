//go:build linux && (amd64 || arm64)

package underlease

import (
	"os"
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// action is the kernel's struct sigaction.
type action struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

const ignore = 1 // SIG_IGN

func actionOf(sig syscall.Signal) (a action, ok bool) {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(&a)), 8, 0, 0)
	return a, errno == 0
}

// ignoreIgnored ignores what was ignored when this process started, so that the command inherits that. Go's runtime has
// handlers for most signals by now, and remembers what it has replaced. SIGCHLD and SIGURG, which the
// runtime needs, are ignored by default anyway.
func ignoreIgnored() {
	for sig := range syscall.Signal(len(fwdSig)) {
		now, ok := actionOf(sig)
		if ok && sig != syscall.SIGCHLD && sig != syscall.SIGURG && (fwdSig[sig] == ignore || now.handler == ignore) {
			signal.Ignore(sig)
		}
	}
}

// relay is a signal handler that records in codes why a signal was sent, which os/signal does not tell, and goes on
// as next, the handler of Go's runtime. relayPC is its address for the kernel.
//
//lint:ignore U1000 assembly takes its address
func relay()

var (
	codes   [65]int32 // si_code by signal
	next    uintptr   //lint:ignore U1000 assembly reads it
	relayPC uintptr
)

// recordOrigins makes fromTerminal know the origin of signals that are caught.
func recordOrigins(caught []os.Signal) {
	for _, sig := range caught {
		if a, ok := actionOf(sig.(syscall.Signal)); ok && a.handler != relayPC && a.handler > ignore {
			next, a.handler = a.handler, relayPC
			_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig.(syscall.Signal)), uintptr(unsafe.Pointer(&a)), 0, 8, 0, 0)
		}
	}
}

// fromTerminal reports whether the kernel has sent a signal on Ctrl-C or Ctrl-\: to all processes of the foreground
// group. SIGHUP it sends to a session's leader alone, which may be this process.
func fromTerminal(sig os.Signal) bool {
	return (sig == syscall.SIGINT || sig == syscall.SIGQUIT) && codes[sig.(syscall.Signal)] > 0
}
