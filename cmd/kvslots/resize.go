package main

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots"
)

func resizeCommand(env settings.Environment) *cobra.Command {
	limit := 0
	command := newTargetCommand(env, "resize [<pool>] --limit N", "Change the limit of a semaphore that is in use",
		"Change the limit of a semaphore while it is held or waited for. Its leases go on, even if they are more, and those in\n"+
			"line wait for a slot under the new limit. \"kvslots sem\" with another --limit waits until no slot is held, in the order of\n"+
			"arrival. The count of a pool is changed by \"kvslots register\".",
		nil, func(flags *pflag.FlagSet) {
			flags.Var(settings.Number(&limit, limit, 1, kvslots.MaxSemaphoreLimit), "limit", "number of slots")
		},
		func(ctx context.Context, t *target, _ []string) error {
			if limit == 0 {
				return settings.Usagef("--limit is missing")
			}
			state, err := t.from.SetLimit(ctx, t.pool, limit)
			return t.changed(ctx, state, err)
		})
	return command
}
