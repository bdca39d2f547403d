package main

import (
	"context"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
)

func returnCommand(env settings.Environment) *cobra.Command {
	return newPoolCommand(env, "return [<pool>] [<lease>]", "Return a lease before it ends",
		"Return a lease. The next borrower in line gets the slot. If the lease is unknown, was returned, or has expired, the\n"+
			"command prints \"not held\", which is not an error: the command can safely be repeated. "+leaseHelp,
		arguments(leaseArguments...), nil,
		func(ctx context.Context, p *gatewayCommand, args []string) error {
			return p.withLease(args, func(from *lender, pool, lease uuid.UUID) error {
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
