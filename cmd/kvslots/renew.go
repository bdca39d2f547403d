package main

import (
	"context"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots/wire"
)

func renewCommand(env settings.Environment) *cobra.Command {
	var t leaseTerms
	return newPoolCommand(env, "renew [<pool>] [<lease>] [--ttl 30s]", "Renew a lease",
		"Set the end of a lease to --ttl from now, and print it as \"kvslots borrow\" does. A lease that has ended is not renewed,\n"+
			"which is an error. "+leaseHelp,
		arguments(leaseArguments...), func(flags *pflag.FlagSet) { t.addTTL(flags, defaultTTL) },
		func(ctx context.Context, p *gatewayCommand, args []string) error {
			return p.withLease(args, func(from *lender, pool, lease uuid.UUID) error {
				renewed, err := from.Renew(ctx, pool, lease, t.ttl)
				if err != nil {
					return from.explain(err)
				}
				return p.answer(nil, leaseAnswer(wire.NewLease(renewed)))
			})
		})
}
