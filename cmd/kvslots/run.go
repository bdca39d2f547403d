package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const runHelp = `Borrow a slot, run the command, return the slot when the command ends, and exit with the command's exit code, or 128+n
if signal n killed it. The command has KVSLOTS_POSITION, KVSLOTS_LEASE and KVSLOTS_FENCE in its environment, and none of
the variables that hold credentials of kvslots, such as KVSLOTS_AUTH_TOKEN, unless --keep-credentials is given; those that name
files with them, such as KVSLOTS_AUTH_TOKEN_FILE, are left to it.

Exit codes of kvslots itself, if the command did not run: 75, no slot was free in time; 69, no gateway has answered; 77, the
credentials are refused; 78, a file that a flag names cannot be read; 65, the semaphore has another limit; 126 and 127, the
command cannot be executed or found; 2, wrong flags; 1, others. --error-exit-code replaces all but 2. 124: kvslots ended the
command because its lease was lost or about to end.

kvslots renews the lease while the command runs, every sixth of --ttl. With the default --ttl of 30s the command survives
22 s without a gateway; "--ttl 10m" makes that 8 minutes, and a slot whose machine fails is then free after 10 minutes.
If no gateway can be reached, the lease ends --ttl after the last renewal.
Before that, kvslots sends SIGTERM to the command, and SIGKILL after --kill-after: early enough for the command to end before
its lease, even if the machine was suspended meanwhile. If kvslots itself is killed with SIGKILL, a guard (a small
shell in a session of its own; a job object on Windows) kills the command's process group. What has left that group goes on, as
with setsid(1), and at a terminal, or without /bin/sh, what the command has started.

kvslots passes signals on to the command's process group, and ends that group when the lease ends. If kvslots has a
controlling terminal, the command stays in the group of kvslots, as with flock(1), and gets Ctrl-C and Ctrl-Z from the terminal;
kvslots signals the processes of the group that the command has started. If a signal is ignored when kvslots starts, as SIGHUP
is under nohup(1), kvslots and the command ignore it. A command of another user cannot be ended: write "sudo kvslots run …
-- job", not "kvslots run … -- sudo job".

What the command leaves in the background, as "job &", keeps the slot until it ends, unless --close is given. What has left the
command's process group, as with setsid(1) or a daemon, does not.

With "--wait forever" kvslots waits without a limit. While no gateway can be reached, or gateways answer 429, 502, 503,
504 or 507, kvslots tries again until --wait is over. After SIGINT or SIGTERM it leaves the line at once; if it is killed with
SIGKILL, the gateway keeps its place for --resume-grace, 10 s by default. When
the command has ended, kvslots tries to return the slot for 10 s, or until it gets a second signal, and for 5 s at most if
kvslots has ended the command. If the gateway grants a shorter lease than --ttl, kvslots prints that to standard error.

With --also the command runs while slots of several pools are held. They are taken in one order for all processes, so that
no two of them wait for each other; if one is not free in time, none is held. KVSLOTS_FENCE and the like are those of the
first pool, and KVSLOTS_FENCES, KVSLOTS_POSITIONS and KVSLOTS_LEASES have those of all, separated by commas.

With --json the lease is printed to standard output before the command starts.`

func runCommand(env settings.Environment) *cobra.Command {
	var o runOptions
	command := newPoolCommand(env, "run [<pool>] [--ttl 30s] [--wait 5s] [flags] -- command [argument…]",
		"Run a command while holding a slot", runHelp, nil,
		func(flags *pflag.FlagSet) { o.addFlags(flags, defaultTTL, 0, "slot", "another <pool>") },
		func(ctx context.Context, p *gatewayCommand, args []string) error {
			before, argv, err := o.load(p.Command, args)
			if err != nil {
				return err
			}
			if err := arguments("[<pool>]")(p.Command, before); err != nil {
				return err
			}
			s, err := p.slots(o.leaseTerms, before, o.also)
			if err != nil {
				return err
			}
			defer s.close()
			return o.runUnder(ctx, p.Command, s, argv, func() error { return p.printLeases(s) })
		})
	o.runs(command)
	return command
}

func (p *gatewayCommand) slots(t leaseTerms, args, also []string) (holding, error) {
	if len(args) == 1 && !strings.HasPrefix(args[0], "@") {
		if _, err := wire.ParseID("", args[0]); err != nil {
			return nil, settings.Usagef("<pool> must be a UUID; to hold a lock by its name, use kvslots lock NAME")
		}
	}
	var members []member
	for _, pool := range append([][]string{args}, split(also)...) {
		s, err := p.slot(t, pool)
		if err != nil {
			return nil, err
		}
		members = append(members, s)
	}
	h := newSeveral(members)
	if h == nil {
		return nil, settings.Usagef("--also must be another pool each time")
	}
	return h, nil
}

func split(arguments []string) (each [][]string) {
	for _, argument := range arguments {
		each = append(each, []string{argument})
	}
	return each
}

func (p *gatewayCommand) printLeases(h holding) error {
	if !p.json {
		return nil
	}
	all, ok := h.(*several)
	if !ok {
		return p.answer(nil, h.(*slot).answer())
	}
	for _, m := range all.given {
		if err := p.answer(nil, m.(*slot).answer()); err != nil {
			return err
		}
	}
	return nil
}
