package main

import (
	"context"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
)

func returnCommand(env settings.Environment) *cobra.Command {
	return newPoolCommand(env, "return [<pool>] <lease>", "Return a lease before it ends",
		"Return a lease. The next borrower in line gets the slot. If the lease is unknown, was returned, or has expired, the\n"+
			"command prints \"not held\", which is not an error: the command can safely be repeated. <lease> may also be @FILE.",
		arguments(leaseArguments...), nil,
		func(ctx context.Context, p *poolCommand, args []string) error {
			before, last, err := p.poolAndLease(args)
			if err != nil {
				return err
			}
			lease, err := secretArgument(p.Command, "<lease>", last[0])
			if err != nil {
				return err
			}
			return p.with(before, func(from *lender, pool uuid.UUID) error {
				returned, err := from.Return(ctx, pool, lease)
				return p.answer(from.explain(err), returnedAnswer{returned})
			})
		})
}

func (r returnedAnswer) String() string {
	if r.Returned {
		return "returned"
	}
	return "not held"
}
