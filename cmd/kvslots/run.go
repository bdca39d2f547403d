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

kvslots renews the lease while the command runs. If no gateway can be reached, the lease ends --ttl after the last renewal.
Before that, kvslots sends SIGTERM to the command, and SIGKILL after --kill-after: early enough for the command to end before
its lease, even if the machine was suspended meanwhile. If kvslots itself is killed, Linux kills the command as well; on other
systems the command continues without a lease.

kvslots passes signals on to the command. The command runs in a process group of its own, and when the lease ends, kvslots
signals the whole group. If standard input is the terminal, the command stays in the group of kvslots, as with flock(1): it
gets Ctrl-C and Ctrl-Z from the terminal, and when the lease ends, kvslots signals only the command, not the processes that
the command has started. If a signal is ignored when kvslots starts, as SIGHUP is under nohup(1), kvslots and the command
ignore it.

While no gateway can be reached, or gateways answer 429, 502, 503 or 504, kvslots tries again until --wait is over. When
the command has ended, kvslots tries to return the slot until its lease ends, or kvslots gets a second signal. If the
gateway grants a shorter lease than --ttl, kvslots prints that to standard error.

With --json the lease is printed to standard output before the command starts.`

func runCommand(env settings.Environment) *cobra.Command {
	var t leaseTimes
	var killAfter time.Duration
	command := newPoolCommand(env, "run [<pool>] [--ttl 30s] [--wait 5s] [flags] -- command [argument…]",
		"Run a command while holding a slot", runHelp, nil,
		func(flags *pflag.FlagSet) {
			t.addFlags(flags)
			flags.Var(settings.Duration(&killAfter, 0, time.Hour), "kill-after",
				"time for the command to end after SIGTERM; 0 means a third of --ttl, at most 10s")
		},
		func(ctx context.Context, p *poolCommand, args []string) error {
			dash := p.ArgsLenAtDash()
			if dash < 0 || dash == len(args) {
				return settings.Usagef("the command is missing: put it after --")
			}
			if dash > 1 {
				return settings.Usagef("only the pool and flags may come before --")
			}
			killAfter = cmp.Or(killAfter, underlease.DefaultKillAfter(t.ttl))
			if margin := underlease.Margin(t.ttl); killAfter+margin >= t.ttl {
				return settings.Usagef("--kill-after must be less than --ttl, by more than %s: the command would have no time to run", settings.FormatDuration(margin))
			}
			s, err := p.slot(t, args[:dash])
			if err != nil {
				return err
			}
			defer s.close()
			return p.runUnder(ctx, s, args[dash:], killAfter)
		})
	command.DisableFlagsInUseLine = true // flags come before the command
	return command
}

func (p *poolCommand) runUnder(ctx context.Context, s *slot, argv []string, killAfter time.Duration) error {
	command := exec.Command(argv[0], argv[1:]...)
	command.Stdin, command.Stdout, command.Stderr = p.InOrStdin(), p.OutOrStdout(), p.ErrOrStderr()
	code, err := underlease.Run(ctx, underlease.Config{
		Slot:    s,
		Command: command,
		Prepare: func() error {
			s.printShortfall()
			command.Env = append(settings.WithoutSecrets(os.Environ()), s.lease.environment()...)
			if !p.json {
				return nil
			}
			return p.answer(nil, s.lease)
		},
		KillAfter: killAfter,
		Printf:    func(format string, v ...any) { fmt.Fprintf(p.ErrOrStderr(), "kvslots: "+format+"\n", v...) },
	})
	switch {
	case err != nil && code == 0:
		return p.fail(err)
	case code != exitDone:
		return exitError{code, err}
	}
	return nil
}
