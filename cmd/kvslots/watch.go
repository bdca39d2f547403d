package main

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots"
)

func watchCommand(env settings.Environment) *cobra.Command {
	every := time.Second
	return newPoolCommand(env, "watch [<pool>]", "Print a line whenever a pool's state changes",
		"Print the state of the pool, and a line after each change, until interrupted. The command asks the gateway every\n"+
			"--interval, and does not see a change that is undone in between.",
		arguments("[<pool>]"),
		func(flags *pflag.FlagSet) {
			flags.Var(settings.Duration(&every, 50*time.Millisecond, time.Hour), "interval", "how often to ask")
		},
		func(ctx context.Context, p *poolCommand, args []string) error {
			ctx, release := untilSignal(ctx)
			defer release()
			return p.with(args, func(from *lender, pool uuid.UUID) error { return p.watch(ctx, from, pool, every) })
		})
}

// watch prints the state until ctx ends. It returns an error if the pool does not exist, or
// if the first request fails.
func (p *poolCommand) watch(ctx context.Context, from *lender, pool uuid.UUID, every time.Duration) error {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	var last *poolAnswer
	tries := retry{hint: "still trying", stderr: p.ErrOrStderr()}
	for {
		inspected, err := from.inspect(ctx, pool)
		answer := poolAnswer(inspected.Pool)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, kvslots.ErrNoPool), err != nil && last == nil:
			return coded(err)
		case err != nil: // an earlier request succeeded; a later one may again
			tries.print(err)
		case last == nil || *last != answer:
			if err := p.answer(nil, answer); err != nil {
				return err
			}
			last, tries.printed = &answer, ""
		default:
			tries.printed = ""
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
	}
}
