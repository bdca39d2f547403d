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
	count, name, draw := 0, "", false
	return newPoolCommand(env, "register [<pool>] --count N", "Register a pool, or change its count",
		"Register the pool under a UUID of your choice, with count slots; or change the count of a registered pool. With --new\n"+
			"the command draws the UUID of a new pool, and prints that alone, as \"kvslots register --new --count 5 >pool\". A lower count ends no lease: the pool lends no slot until fewer than count are in use.",
		arguments("[<pool>]"),
		func(flags *pflag.FlagSet) {
			flags.Var(settings.Number(&count, 0, 0, kvslots.MaxCount), "count", "number of slots, 0 to 1000")
			flags.BoolVar(&draw, "new", false, "draw the UUID of a new pool, and print it")
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
			switch {
			case draw && len(args) > 0:
				return settings.Usagef("<pool> and --new exclude each other")
			case draw:
				args = []string{uuid.NewString()}
			}
			return p.withPool(args, func(from *lender, pool uuid.UUID) error {
				state, err := from.Register(ctx, pool, count, opts...)
				answer := wire.Pool{ID: pool, State: state}
				if draw {
					return p.answer(from.explain(err), newPool(answer))
				}
				return p.answer(from.explain(err), poolAnswer(answer))
			})
		})
}

// newPool is a pool whose id the user does not know yet.
type newPool wire.Pool

func (p newPool) String() string { return p.ID.String() }
