package main

import (
	"context"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
)

func deleteCommand(env lookupEnv) *cobra.Command {
	command, a := askCommand(env, "delete [<pool>]", "Delete a pool with all its leases",
		"Delete the pool. All its leases end at once. To delete a pool that is not there is no error.\n\n"+poolHelp,
		cobra.MaximumNArgs(1),
		func(ctx context.Context, a *asking, command *cobra.Command, args []string) error {
			return a.with(command, args, func(from lender, pool uuid.UUID) error {
				return a.tell(command.OutOrStdout(), from.remove(ctx, pool), deletedAnswer{true})
			})
		})
	a.addFlags(command)
	return command
}

func (deletedAnswer) String() string { return "deleted" }
