// Package underlease runs a command under a lease.
//
// [Run] borrows a lease, starts the command, renews the lease for as long as the
// command runs, and returns it when the command has ended. When the lease cannot
// be renewed, or has ended elsewhere, Run ends the command: with SIGTERM, and
// with SIGKILL when [Config.KillAfter] is over. Both are early enough for the
// lease to outlive the command by [Margin].
//
// All times are counted on the clock of package boottime from the moment at which
// a request for the lease was sent, or later if the server says so, so that the
// real lease never ends before the one that Run counts. If the machine was
// suspended until after the lease's end, the command is killed within maxPause of
// the resumption.
//
// The promise needs this process. If it is killed, Linux kills the command, too;
// on other systems the command goes on without a lease. If it is stopped
// (SIGSTOP), nothing ends the command in time.
package underlease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"os/signal"
	"time"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/boottime"
)

// The exit codes of Run that are not the command's own. The last two are those of
// shells.
const (
	ExitLost          = 124 // the command was ended because its lease was; timeout(1) has the same
	exitNotExecutable = 126
	exitNotFound      = 127
)

// Config says what to run under which lease.
type Config struct {
	// Slot grants the lease.
	Slot Slot

	// Command is what to run. Run sets its SysProcAttr and WaitDelay. The command
	// gets a process group of its own, unless its Stdin is the terminal of this
	// process: only the terminal's foreground group can read from it.
	Command *exec.Cmd

	// Prepare completes Command when the lease is granted, before the start. If
	// it fails, Command is not started.
	Prepare func() error

	// KillAfter is the time that Command has between SIGTERM and SIGKILL. It and
	// Margin must leave some of each lease.
	KillAfter time.Duration

	// Printf prints a line for the user.
	Printf func(format string, v ...any)
}

// Run runs a command under a lease. If the command has run, err is nil, and code
// is its exit code, 128+n if it died of signal n, or ExitLost if Run has ended it.
// Otherwise err says why it has not run: a [SignalError] if a signal ended the wait
// for the lease, or the error of Slot.Borrow, of Prepare, or of the start. Then
// code is the exit code that shells have for this, or 0 if they have none.
//
// Run passes the signals that this process gets on to the command; see forwarded.
// While there is no command, the first one that asks to end ends the wait, and a
// second one ends the tries to return the lease.
func Run(ctx context.Context, cfg Config) (code int, err error) {
	// A command that does not exist borrows nothing.
	if _, err := exec.LookPath(cfg.Command.Args[0]); err != nil {
		return startCode(err), err
	}
	r := &runner{Config: cfg, shared: sharesTerminal(cfg.Command.Stdin)}
	// Signals are caught before there is a lease: none may leave one behind.
	r.signals = catchSignals(r.shared)
	defer signal.Stop(r.signals.received)

	lease, err := r.obtain(ctx)
	if sig, ok := errors.AsType[SignalError](err); ok {
		return sig.ExitCode(), err
	}
	if err != nil {
		return 0, err
	}
	code, err = r.use(ctx, lease)
	r.signals.during(ctx, func(_, hurry context.Context) { r.giveBack(hurry) })
	return code, err
}

// runner is one call of Run.
type runner struct {
	Config
	shared  bool // the command is in the process group of this process
	signals *signals
}

// obtain borrows a lease. If a signal that asks to end comes meanwhile, a lease
// that was granted in that moment is returned.
func (r *runner) obtain(ctx context.Context) (lease Lease, err error) {
	r.signals.during(ctx, func(stop, hurry context.Context) {
		lease, err = r.borrow(stop, hurry)
		if stop.Err() == nil {
			return
		}
		if err == nil {
			r.giveBack(hurry)
		}
		err = context.Cause(stop)
	})
	return lease, err
}

// borrow borrows until enough is left of the lease: the answer may have taken
// long.
func (r *runner) borrow(stop, hurry context.Context) (Lease, error) {
	for {
		lease, err := r.Slot.Borrow(stop)
		if err != nil {
			return Lease{}, err
		}
		if lease.TTL <= r.KillAfter+Margin(lease.TTL) {
			r.giveBack(hurry)
			return Lease{}, fmt.Errorf("the gateway lends for %s at most, which leaves no time to run a command that has %s to end",
				lease.TTL, r.KillAfter)
		}
		if lease.fresh(boottime.Now(), r.KillAfter) {
			return lease, nil
		}
		if lease, err = r.Slot.Renew(stop); err == nil {
			return lease, nil
		}
		r.giveBack(hurry)
	}
}

// giveBack returns the lease. If that fails, the exit code stays what it is.
func (r *runner) giveBack(ctx context.Context) {
	if err := r.Slot.Return(ctx); err != nil {
		r.Printf("the slot was not returned, and is free when its lease ends: %v", err)
	}
}

// use runs the command.
func (r *runner) use(ctx context.Context, lease Lease) (code int, err error) {
	if err := r.Prepare(); err != nil {
		return 0, err
	}
	child, err := startChild(r.Command, r.shared)
	if err != nil {
		return startCode(err), err
	}
	return r.supervise(ctx, lease, child), nil
}

// startCode is the exit code that shells have for a command that cannot be started.
func startCode(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	return exitNotExecutable
}
