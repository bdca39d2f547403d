package main

import (
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots"
)

const lockHelp = `The lock belongs to a session, which kvslots keeps alive and ends with the command. With the default --ttl of 4m the command
survives 3 minutes without a gateway, as when the gateway's machine is rebooted. If kvslots is killed, the lock is free when its
lease ends: after --ttl, at most. A gateway may grant less, --max-ttl or an hour; kvslots prints that to standard
error.

The command has KVSLOTS_FENCE in its environment, and none of the variables with credentials of kvslots. It is ended before
the lock can be another's. All this, the signals and the exit codes are as with "kvslots run"; see its help.

What the command leaves in the background, as "job &", keeps the lock until it ends, unless --close is given, and is ended with the
command. What has left the command's process group, as with setsid(1) or a daemon, keeps no lock and is not ended.

The flags with a letter are those of flock(1), and kvslots waits for ever by default, as flock does. Of a job in cron that
should be left out while the last one runs, "-n -q" prints nothing.`

func lockCommand(env settings.Environment) *cobra.Command {
	return newNamedCommand(env, "lock NAME", "Run a command while holding a lock",
		"Take the lock of a name, run the command, release the lock when the command ends, and exit with the command's exit code.",
		nil, kvslots.Lock)
}

func semCommand(env settings.Environment) *cobra.Command {
	var limit int
	command := newNamedCommand(env, "sem NAME --limit N", "Run a command while holding a slot of a semaphore",
		"Take one of --limit slots of the semaphore of a name, run the command, release the slot when the command ends, and exit\n"+
			"with the command's exit code. A semaphore has one limit while it is in use: with another --limit, sem exits with code 65.\n"+
			"\"kvslots resize\" changes the limit.",
		func(flags *pflag.FlagSet) {
			flags.Var(settings.Number(&limit, 0, 1, kvslots.MaxSemaphoreLimit), "limit", "number of slots")
		},
		func(name string) kvslots.Resource { return kvslots.Semaphore(name, limit) })
	return command
}

// newNamedCommand returns a command that runs another one while it holds what on returns.
func newNamedCommand(env settings.Environment, use, short, long string, ownFlags func(*pflag.FlagSet), on func(name string) kvslots.Resource) *cobra.Command {
	var o runOptions
	var at settings.Gateway
	command := newCommand(env, &at, use+" [--wait 5s] [flags] -- command [argument…]", short, long+"\n\n"+lockHelp+"\n\n"+gatewayHelp, nil,
		func(command *cobra.Command, args []string) error {
			before, argv, err := o.load(command, args)
			if err != nil {
				return err
			}
			if err := arguments("NAME")(command, before); err != nil {
				return err
			}
			if limit := command.Flag("limit"); limit != nil && !limit.Changed {
				return settings.Usagef("--limit is missing")
			}
			names := slices.Concat(before, o.also)
			from, err := dial(&at, command.ErrOrStderr())
			if err != nil {
				return err
			}
			h, err := newNames(from, o.leaseTerms, names, on)
			if err != nil {
				return err
			}
			defer h.close()
			return o.runUnder(command.Context(), command, h, argv, nil)
		})
	flags := command.Flags()
	if ownFlags != nil {
		ownFlags(flags)
	}
	o.addFlags(flags, 4*time.Minute, settings.Forever, "name", "another name")
	at.AddFlags(flags)
	o.runs(command)
	command.ValidArgsFunction = completeNames(env, &at, map[string]string{"lock": "lock", "sem": "semaphore"}[command.Name()])
	return command
}

func newNames(from *lender, t leaseTerms, names []string, on func(name string) kvslots.Resource) (holding, error) {
	in := &ownSession{from: from}
	var members []member
	for _, name := range names {
		if err := on(name).Check(true); err != nil {
			return nil, settings.Usagef("the name is wrong: %w", err)
		}
		members = append(members, newNamed(in, on(name), t))
	}
	h := newSeveral(members)
	if h == nil {
		return nil, settings.Usagef("--also must be another name each time")
	}
	return h, nil
}
