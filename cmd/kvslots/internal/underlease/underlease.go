package underlease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"time"
)

// Exit codes of Run itself. The last two have the same meaning in shells.
const (
	ExitLost          = 124 // Run ended the command because its lease was ending; the code of timeout(1)
	exitNotExecutable = 126
	exitNotFound      = 127
)

type Config struct {
	Slot Slot

	// Command is the command to run. Run sets its SysProcAttr and WaitDelay. The
	// command gets its own process group, unless Alone is set and this process has a controlling
	// terminal: only the foreground group of a terminal can read from it.
	Command *exec.Cmd

	// Alone says that no other part of this process starts processes. Run then reaps all
	// that this process adopts.
	Alone bool

	// Close returns the lease when the command has ended. Otherwise Run keeps it until the
	// command's process group is empty.
	Close bool

	// Prepare completes Command after the lease is granted. If Prepare returns an
	// error, Run does not start Command.
	Prepare func() error

	// KillAfter is the time between SIGTERM and SIGKILL. The sum of KillAfter and
	// Margin must be less than the ttl of each lease.
	KillAfter time.Duration

	Printf func(format string, v ...any)
}

// Run runs a command under a lease. If the command has run, err is nil, and code
// is its exit code, 128+n if it died of signal n, or ExitLost if Run has ended it.
// Otherwise err says why it has not run: a [SignalError] if a signal ended the wait
// for the lease, or the error of Slot.Borrow, of Prepare, or of the start. Then
// code is the exit code that shells have for this, or 0 if they have none.
//
// Run passes signals to this process on to the command. While no command is running, the
// first signal that asks to end ends the wait for a lease, and a second one ends the
// attempts to return the lease. They end within 10 s, after ExitLost within 5 s.
func Run(ctx context.Context, cfg Config) (code int, err error) {
	// If the command does not exist, do not borrow.
	if _, err := exec.LookPath(cfg.Command.Args[0]); err != nil {
		return startCode(err), err
	}
	r := &runner{Config: cfg, shared: cfg.Alone && hasTerminal()}
	// Catch signals before the lease is granted: a signal must not leave a lease behind.
	r.signals = catchSignals(r.shared)
	defer r.signals.stop()
	if cfg.Alone {
		r.signals.orphans = adoptOrphans()
	}

	lease, err := r.obtain(ctx)
	if sig, ok := errors.AsType[SignalError](err); ok {
		return sig.ExitCode(), err
	}
	if err != nil {
		return 0, err
	}
	code, err = r.use(ctx, lease)
	r.finish(ctx)
	return code, err
}

// returnTimeout bounds the return of a lease, as in all clients (kvslots/client/PROMISES.md).
const returnTimeout = 10 * time.Second

// finish returns the lease. It tries half as long if the lease has ended, as far as Run knows.
func (r *runner) finish(ctx context.Context) {
	within := returnTimeout
	if r.lost {
		within /= 2
	}
	r.signals.during(ctx, func(_, hurry context.Context) {
		hurry, cancel := context.WithTimeout(hurry, within)
		defer cancel()
		r.giveBack(hurry)
	})
}

type runner struct {
	Config
	shared  bool // whether the command is in the process group of this process
	signals *signals
	lost    bool // the command was ended because of the lease
}

// obtain borrows a lease. If a signal ends the wait, obtain returns a SignalError, and
// gives back a lease that was granted at the same time.
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

// borrow borrows until a lease has enough time left: an answer may have been slow.
func (r *runner) borrow(stop, hurry context.Context) (Lease, error) {
	for {
		lease, err := r.Slot.Borrow(stop)
		if err != nil {
			return nil, err
		}
		if fresh(lease, r.KillAfter) {
			return lease, nil
		}
		ttl := lease.TTL()
		r.giveBack(hurry)
		if ttl <= r.KillAfter+Margin(ttl) {
			return nil, fmt.Errorf("the gateway grants leases of at most %s, which leaves no time to run a command that may take %s to end",
				ttl, r.KillAfter)
		}
	}
}

func (r *runner) giveBack(ctx context.Context) {
	if err := r.Slot.Return(ctx); err != nil {
		r.Printf("the slot was not returned, and is free when its lease ends: %v", err)
	}
}

func (r *runner) use(ctx context.Context, lease Lease) (code int, err error) {
	if err := r.Prepare(); err != nil {
		return 0, err
	}
	child, err := startChild(r.Command, r.shared)
	if err != nil {
		return startCode(err), err
	}
	defer child.release()
	return r.supervise(ctx, lease, child), nil
}

// startCode returns the exit code in shells for a command that cannot be started.
func startCode(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	return exitNotExecutable
}
