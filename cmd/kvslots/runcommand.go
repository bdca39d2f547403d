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

const runHelp = `Borrow a slot, run the command with it, return the slot when the command ends, and exit with its code; 128+n
when it died of signal n. The command finds KVSLOTS_POSITION, KVSLOTS_LEASE and KVSLOTS_FENCE in its environment.

Exit codes of its own: 75, no slot in time, nothing was run; 124, the lease was about to end, and so the command was
ended; 126 and 127, the command cannot be executed or found, nothing was borrowed.

The lease is renewed for as long as the command runs. When no gateway can be reached for that, the lease ends, --ttl after
it was last renewed. Before the lease can end, the command gets SIGTERM, and SIGKILL when --kill-after is over: both early enough for the
lease to outlive it, also when the machine was suspended meanwhile. This needs kvslots itself to run; should it be
killed, the command is killed with it on Linux, and elsewhere goes on without a lease.

Signals are passed on to the command. It runs in a process group of its own, all of which is ended; unless standard
input is the terminal: then it shares ours, as with flock(1), gets Ctrl-C and Ctrl-Z from the terminal itself, and at
the lease's end only the command is signalled, not what it has started.

While no gateway can be reached, or gateways ask to come again later (429, 502, 503, 504), the wait goes on until --wait is
over. The slot is returned when the command has ended; that is tried again until its lease ends, or a second signal
comes. A lease that is shorter than --ttl is announced on standard error.

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
	signalled time.Duration // when the first signal came that asks to end; 0 before
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
	pool, err := poolArgument(r.command, r.env, poolArgs)
	if err != nil {
		return err
	}
	// From now on: a signal must not leave a lease behind.
	r.signals = make(chan os.Signal, 16)
	shared := sharesTerminal(r.command.InOrStdin())
	signal.Notify(r.signals, forwarded(shared)...)
	defer signal.Stop(r.signals)

	var from lender
	var lease held
	r.attend(ctx, func(stop, hurry context.Context) { from, lease, err = r.obtain(stop, hurry, pool) })
	if from != nil {
		defer from.close()
	}
	if err != nil {
		return reportFailure(r.command.OutOrStdout(), r.json, err)
	}
	lease, err = r.use(ctx, from, lease, path, shared)
	r.attend(ctx, func(_, hurry context.Context) { r.giveBack(hurry, from, lease) })
	return err
}

// use runs the command with its lease, and returns the lease as it was last
// renewed.
func (r *runner) use(ctx context.Context, from lender, lease held, path string, shared bool) (held, error) {
	if r.json {
		if err := report(r.command.OutOrStdout(), true, lease.lease, ""); err != nil {
			return lease, err
		}
	}
	child, err := startChild(r.exec(path, lease.lease), shared)
	if err != nil {
		return lease, cannotRun(err)
	}
	return r.supervise(ctx, from, lease, child)
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

// cannotRun gives the error the exit code of a shell.
func cannotRun(err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitError{exitNotFound, err}
	}
	return exitError{exitNotExecutable, err}
}

// lost reports whether an error means that the lease has ended.
func lost(err error) bool {
	return errors.Is(err, kvslots.ErrNotHeld) || errors.Is(err, kvslots.ErrNoPool)
}
