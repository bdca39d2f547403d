package main

import (
	"context"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/kvslots/kvslots/kvslots"
)

func registerCommand(env lookupEnv) *cobra.Command {
	const flag = "count"
	count := 0
	command, a := askCommand(env, "register [<pool>] --count N", "Register a pool, or change its count",
		"Register the pool under a UUID of your choice, with count slots; or change the count of a pool that is there.\n"+
			"A lower count ends no lease: nothing is lent until fewer than count are in use.\n\n"+poolHelp,
		cobra.MaximumNArgs(1),
		func(ctx context.Context, a *asking, command *cobra.Command, args []string) error {
			if !command.Flags().Changed(flag) {
				return usagef("--count is missing")
			}
			return a.with(command, args, func(from lender, pool uuid.UUID) error {
				answer, err := from.register(ctx, pool, count)
				return a.tell(command.OutOrStdout(), err, answer)
			})
		})
	command.Flags().Var(number{&count, 0, kvslots.MaxCount}, flag, "number of slots, 0 to 1000")
	a.addFlags(command)
	return command
}
