package main

import (
	"context"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
)

func inspectCommand(env settings.Environment) *cobra.Command {
	return newPoolCommand(env, "inspect [<pool>]", "Print the state of a pool",
		"Print how many slots the pool has, how many are in use and available, and how many borrowers wait.",
		arguments("[<pool>]"), nil,
		func(ctx context.Context, p *poolCommand, args []string) error {
			return p.with(args, func(from *lender, pool uuid.UUID) error {
				answer, err := from.inspect(ctx, pool)
				return p.answer(err, answer)
			})
		})
}
