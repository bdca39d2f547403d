package main

import (
	"context"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

func registerCommand(env settings.Environment) *cobra.Command {
	count, name := 0, ""
	return newPoolCommand(env, "register [<pool>] --count N", "Register a pool, or change its count",
		"Register the pool under a UUID of your choice, with count slots; or change the count of a registered pool.\n"+
			"A lower count ends no lease: the pool lends no slot until fewer than count are in use.",
		arguments("[<pool>]"),
		func(flags *pflag.FlagSet) {
			flags.Var(settings.Number(&count, 0, 0, kvslots.MaxCount), "count", "number of slots, 0 to 1000")
			flags.StringVar(&name, "name", "", "public name, shown beside the pool's hash; not secret, need not be unique. Without it the pool keeps its name")
		},
		func(ctx context.Context, p *gatewayCommand, args []string) error {
			if !p.Flags().Changed("count") {
				return settings.Usagef("--count is missing")
			}
			var opts []kvslots.Option
			if p.Flags().Changed("name") {
				opts = append(opts, kvslots.WithName(name))
			}
			if err := checkText("name", name); err != nil {
				return err
			}
			return p.withPool(args, func(from *lender, pool uuid.UUID) error {
				state, err := from.Register(ctx, pool, count, opts...)
				return p.answer(from.explain(err), poolAnswer(wire.NewPool(pool, state)))
			})
		})
}
