package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots"
)

func pauseCommand(env settings.Environment) *cobra.Command {
	reason := ""
	return newTargetCommand(env, "pause [<pool>] [--reason TEXT]", "Lend no slot of a pool until it is resumed",
		"Take all of a pool out of service: borrowers wait, or are refused, until \"kvslots resume\". Leases go on, and may be\n"+
			"renewed. To repeat the command changes the reason. A lock or a semaphore that is not in use is named by --key.",
		nil, func(flags *pflag.FlagSet) { addReason(flags, &reason) },
		func(ctx context.Context, t *target, _ []string) error {
			if t.unknown { // a mistyped name would be paused, and the pool would not
				return errors.New("no pool, lock or semaphore in use has this name; --key pauses a lock or a semaphore that is not in use")
			}
			return t.takeOut(ctx, kvslots.OutOfService{Position: kvslots.WholePool, Reason: reason})
		})
}

func resumeCommand(env settings.Environment) *cobra.Command {
	return newTargetCommand(env, "resume [<pool>]", "Lend the slots of a paused pool again",
		"Put a pool back into service, which \"kvslots pause\" has taken out. Positions that \"kvslots out\" has taken out stay out.\n"+
			"That is no error if the pool is not paused.",
		nil, nil,
		func(ctx context.Context, t *target, _ []string) error { return t.putBack(ctx, kvslots.WholePool) })
}
