package main

import (
	"context"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
)

func deleteCommand(env settings.Environment) *cobra.Command {
	return newPoolCommand(env, "delete [<pool>]", "Delete a pool with all its leases",
		"Delete the pool. All its leases end at once. Deleting a pool that does not exist is not an error.",
		arguments("[<pool>]"), nil,
		func(ctx context.Context, p *gatewayCommand, args []string) error {
			return p.withPool(args, func(from *lender, pool uuid.UUID) error {
				return p.answer(from.explain(from.Delete(ctx, pool)), deletedAnswer{true})
			})
		})
}

func (deletedAnswer) String() string { return "deleted" }
