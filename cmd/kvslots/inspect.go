package main

import (
	"context"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
)

func inspectCommand(env lookupEnv) *cobra.Command {
	command, a := askCommand(env, "inspect [<pool>]", "Print the state of a pool",
		"Print how many slots the pool has, how many are in use and available, and how many borrowers wait.\n\n"+poolHelp,
		cobra.MaximumNArgs(1),
		func(ctx context.Context, a *asking, command *cobra.Command, args []string) error {
			return a.with(command, args, func(from lender, pool uuid.UUID) error {
				answer, err := from.inspect(ctx, pool)
				return a.tell(command.OutOrStdout(), err, answer)
			})
		})
	a.addFlags(command)
	return command
}
