package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/cmd/kvslots/internal/underlease"
)

const runHelp = `Borrow a slot, run the command, return the slot when the command ends, and exit with the command's exit code, or 128+n
if signal n killed it. The command has KVSLOTS_POSITION, KVSLOTS_LEASE and KVSLOTS_FENCE in its environment, and none of
the variables with credentials of kvslots, such as KVSLOTS_AUTH_TOKEN.

Exit codes of kvslots itself: 75, no slot was free in time, and the command did not run; 124, kvslots ended the command
because its lease was lost or about to end; 126 and 127, the command cannot be executed or found.

kvslots renews the lease while the command runs, every twentieth of --ttl. With the default --ttl of 30s the command survives
25 s without a gateway; "--ttl 10m" makes that 9 minutes, and a slot whose machine fails is then free after 10 minutes.
If no gateway can be reached, the lease ends --ttl after the last renewal.
Before that, kvslots sends SIGTERM to the command, and SIGKILL after --kill-after: early enough for the command to end before
its lease, even if the machine was suspended meanwhile. If kvslots itself is killed, Linux kills the command as well; on other
systems the command continues without a lease.

kvslots passes signals on to the command. The command runs in a process group of its own, and when the lease ends, kvslots
signals the whole group. If standard input is the terminal, the command stays in the group of kvslots, as with flock(1): it
gets Ctrl-C and Ctrl-Z from the terminal, and when the lease ends, kvslots signals only the command, not the processes that
the command has started. If a signal is ignored when kvslots starts, as SIGHUP is under nohup(1), kvslots and the command
ignore it.

With "--wait forever" kvslots waits without a limit. While no gateway can be reached, or gateways answer 429, 502, 503 or
504, kvslots tries again until --wait is over. When
the command has ended, kvslots tries to return the slot until its lease ends, or kvslots gets a second signal, and for 5 s at
most if kvslots has ended the command. If the gateway grants a shorter lease than --ttl, kvslots prints that to standard error.

With --json the lease is printed to standard output before the command starts.`

func runCommand(env settings.Environment) *cobra.Command {
	var t leaseTimes
	var killAfter time.Duration
	command := newPoolCommand(env, "run [<pool>] [--ttl 30s] [--wait 5s] [flags] -- command [argument…]",
		"Run a command while holding a slot", runHelp, nil,
		func(flags *pflag.FlagSet) {
			t.addFlags(flags)
			flags.Var(settings.Duration(&killAfter, 0, time.Hour), "kill-after",
				"time for the command to end after SIGTERM; 0 means a fifteenth of --ttl, 1s to 10s")
		},
		func(ctx context.Context, p *poolCommand, args []string) error {
			dash := p.ArgsLenAtDash()
			if dash < 0 || dash == len(args) {
				return settings.Usagef("the command is missing: put it after --")
			}
			if dash > 1 {
				return settings.Usagef("only the pool and flags may come before --")
			}
			killAfter, err := timeToEnd(killAfter, "ttl", t.ttl)
			if err != nil {
				return err
			}
			s, err := p.slot(t, args[:dash])
			if err != nil {
				return err
			}
			defer s.close()
			return p.fail(runUnder(ctx, p.Command, args[dash:], underlease.Config{Slot: s, KillAfter: killAfter}, func() ([]string, error) {
				s.printShortfall()
				if !p.json {
					return s.lease.environment(), nil
				}
				return s.lease.environment(), p.answer(nil, s.lease)
			}))
		})
	command.DisableFlagsInUseLine = true // flags come before the command
	return command
}

// timeToEnd returns --kill-after, or its default if it is 0. It must leave the command time
// to run under a lease whose length is given with flag.
func timeToEnd(killAfter time.Duration, flag string, ttl time.Duration) (time.Duration, error) {
	killAfter = cmp.Or(killAfter, underlease.DefaultKillAfter(ttl))
	if margin := underlease.Margin(ttl); killAfter+margin >= ttl {
		return 0, settings.Usagef("--kill-after must be less than --%s, by more than %s: the command would have no time to run", flag, settings.FormatDuration(margin))
	}
	return killAfter, nil
}

// runUnder runs argv under a lease, with the streams of command. granted is called when the
// lease is granted, and returns the variables to add to the environment of argv.
func runUnder(ctx context.Context, command *cobra.Command, argv []string, cfg underlease.Config, granted func() ([]string, error)) error {
	child := exec.Command(argv[0], argv[1:]...)
	child.Stdin, child.Stdout, child.Stderr = command.InOrStdin(), command.OutOrStdout(), command.ErrOrStderr()
	cfg.Command = child
	cfg.Prepare = func() error {
		environment, err := granted()
		child.Env = append(settings.WithoutSecrets(os.Environ()), environment...)
		return err
	}
	cfg.Printf = func(format string, v ...any) { fmt.Fprintf(command.ErrOrStderr(), "kvslots: "+format+"\n", v...) }
	code, err := underlease.Run(ctx, cfg)
	if code != exitDone {
		return exitError{code, err}
	}
	return err
}
