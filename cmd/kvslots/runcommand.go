package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/kvslots/kvslots/kvslots"
)

// The variables that a command finds its slot in.
const (
	leaseVariable    = "KVSLOTS_LEASE"
	positionVariable = "KVSLOTS_POSITION"
	fenceVariable    = "KVSLOTS_FENCE"
)

// Exit codes of shells, for a command that cannot be run.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// returnTimeout bounds the return of a lease at a command's end.
const returnTimeout = 5 * time.Second

const runHelp = `Borrow a slot, run the command with it, return the slot when the command ends, and exit with its code; 128+n
when it died of signal n. The command finds KVSLOTS_POSITION, KVSLOTS_LEASE and KVSLOTS_FENCE in its environment.

Exit codes of its own: 75, no slot in time, nothing was run; 124, the lease was about to end, and so the command was
ended; 126 and 127, the command cannot be executed or found, nothing was borrowed.

Over NATS the lease is renewed for as long as the command runs. Over HTTP there is no renewal: --ttl is the limit, and
it is counted from when the slot was asked for, so it should be well above --wait. A lease of which the wait has left
less than half is returned and a new one borrowed.

Before the lease can end, the command gets SIGTERM, and SIGKILL when --kill-after is over: both early enough for the
lease to outlive it, also when the machine was suspended meanwhile. This needs kvslots itself to run; should it be
killed, the command is killed with it on Linux, and elsewhere goes on without a lease.

Signals are passed on to the command. It runs in a process group of its own, all of which is ended; unless standard
input is the terminal: then it shares ours, as with flock(1), gets Ctrl-C and Ctrl-Z from the terminal itself, and at
the lease's end only the command is signalled, not what it has started.

With --json the lease is printed first, on standard output.

`

func runCommand(env lookupEnv) *cobra.Command {
	r := &runner{}
	command, a := askCommand(env, "run [<pool>] [--ttl 30s] [--wait 5s] [flags] -- command [argument…]",
		"Run a command while holding a slot", runHelp+poolHelp, nil,
		func(ctx context.Context, a *asking, command *cobra.Command, args []string) error {
			dash := command.ArgsLenAtDash()
			if dash < 0 || dash == len(args) {
				return usagef("the command is missing: put it after --")
			}
			if dash > 1 {
				return usagef("only the pool, and flags, come before --")
			}
			if err := r.validate(); err != nil {
				return err
			}
			r.asking, r.command, r.argv = a, command, args[dash:]
			return r.run(ctx, args[:dash])
		})
	command.DisableFlagsInUseLine = true // they come before the command
	r.terms.addFlags(command.Flags())
	command.Flags().Var(duration{&r.killAfter, 0, time.Hour, false}, "kill-after",
		"time for the command to end after SIGTERM; 0 means a third of --ttl, at most 10s")
	a.addFlags(command)
	return command
}

// runner is one call of "kvslots run".
type runner struct {
	terms
	*asking
	killAfter time.Duration
	command   *cobra.Command
	argv      []string
	signals   chan os.Signal
}

func (r *runner) validate() error {
	if r.killAfter == 0 {
		r.killAfter = defaultKillAfter(r.ttl)
	}
	if r.killAfter+margin(r.ttl) >= r.ttl {
		return usagef("--kill-after must be less than --ttl, by more than %s: nothing of the lease would be left to the command",
			formatDuration(margin(r.ttl)))
	}
	return nil
}

func (r *runner) run(ctx context.Context, poolArgs []string) error {
	// Before a slot is taken for nothing.
	path, err := exec.LookPath(r.argv[0])
	if err != nil {
		return cannotRun(err)
	}
	// From now on: a signal must not leave a lease behind.
	r.signals = make(chan os.Signal, 16)
	shared := sharesTerminal(r.command.InOrStdin())
	signal.Notify(r.signals, forwarded(shared)...)
	defer signal.Stop(r.signals)

	return r.with(r.command, poolArgs, func(from lender, pool uuid.UUID) error {
		lease, err := r.obtain(ctx, from, pool)
		if err != nil {
			return reportFailure(r.command.OutOrStdout(), r.json, err)
		}
		defer r.giveBack(ctx, from, lease)
		if r.json {
			if err := report(r.command.OutOrStdout(), true, lease.lease, ""); err != nil {
				return err
			}
		}
		child, err := startChild(r.exec(path, lease.lease), shared)
		if err != nil {
			return cannotRun(err)
		}
		return r.supervise(ctx, from, lease, child)
	})
}

// exec is the command, with its slot in its environment.
func (r *runner) exec(path string, lease leaseAnswer) *exec.Cmd {
	command := exec.Command(path, r.argv[1:]...)
	command.Args[0] = r.argv[0]
	command.Stdin, command.Stdout, command.Stderr = r.command.InOrStdin(), r.command.OutOrStdout(), r.command.ErrOrStderr()
	command.WaitDelay = time.Second // for those it left behind, with its output in their hands
	command.Env = append(os.Environ(),
		fmt.Sprintf("%s=%s", leaseVariable, lease.Lease),
		fmt.Sprintf("%s=%d", positionVariable, lease.Position),
		fmt.Sprintf("%s=%d", fenceVariable, lease.Fence),
	)
	return command
}

func (r *runner) giveBack(ctx context.Context, from lender, lease held) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnTimeout)
	defer cancel()
	if _, err := from.giveBack(ctx, lease.pool, lease.lease.Lease); err != nil {
		fmt.Fprintf(r.command.ErrOrStderr(), "kvslots: the slot was not returned, and is free when its lease ends: %v\n", err)
	}
}

// obtain borrows, and sees to it that enough is left of the lease.
func (r *runner) obtain(ctx context.Context, from lender, pool uuid.UUID) (held, error) {
	until := bootTime() + r.wait
	for wait := r.wait; ; wait = max(until-bootTime(), 0).Truncate(time.Second) {
		lease, err := r.borrow(ctx, from, pool, wait)
		if err != nil {
			return held{}, err
		}
		if lease.lease.ttl() <= r.killAfter+margin(lease.lease.ttl()) {
			r.giveBack(ctx, from, lease)
			return held{}, fmt.Errorf("the gateway lends for %s at most, which --kill-after %s leaves nothing of",
				formatDuration(lease.lease.ttl()), formatDuration(r.killAfter))
		}
		if lease.useful(bootTime(), r.killAfter) {
			return lease, nil
		}
		if renewed, err := r.renewed(ctx, from, lease); err == nil {
			return renewed, nil
		}
		r.giveBack(ctx, from, lease)
		if wait == 0 {
			return held{}, errors.New("the gateway's answers take too long for so short a --ttl")
		}
	}
}

// renewed is a lease that is as good as new.
func (r *runner) renewed(ctx context.Context, from lender, lease held) (held, error) {
	renewer, ok := from.(renewer)
	if !ok {
		return lease, errors.ErrUnsupported
	}
	sent := bootTime()
	answer, err := renewer.renew(ctx, lease.pool, lease.lease.Lease, r.ttl)
	if err != nil {
		return lease, err
	}
	return newHeld(lease.pool, answer, sent), nil
}

// borrow borrows once. A signal that would have ended us ends the wait; what
// was granted in that moment goes back.
func (r *runner) borrow(ctx context.Context, from lender, pool uuid.UUID, wait time.Duration) (held, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type result struct {
		held
		err error
	}
	done := make(chan result, 1)
	go func() {
		sent := bootTime()
		answer, err := from.borrow(ctx, pool, r.ttl, wait)
		done <- result{newHeld(pool, answer, sent), err}
	}()
	for {
		select {
		case got := <-done:
			switch {
			case got.err == nil && ctx.Err() != nil:
				r.giveBack(ctx, from, got.held)
				return held{}, interrupted(ctx)
			case ctx.Err() != nil:
				return held{}, interrupted(ctx)
			}
			return got.held, got.err
		case sig := <-r.signals:
			if deadly(sig) {
				cancel(signalError{sig})
			}
		}
	}
}

// cannotRun gives the error the exit code of a shell.
func cannotRun(err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitError{exitNotFound, err}
	}
	return exitError{exitNotExecutable, err}
}

// lost tells whether a renewal's error means that the lease is gone for good.
func lost(err error) bool {
	return errors.Is(err, kvslots.ErrNotHeld) || errors.Is(err, kvslots.ErrNoPool)
}
