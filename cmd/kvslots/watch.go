package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/kvslots/kvslots/kvslots"
)

func watchCommand(env lookupEnv) *cobra.Command {
	every := time.Second
	command, a := askCommand(env, "watch [<pool>]", "Print a line whenever a pool's state changes",
		"Print the state of the pool, and then a line whenever it is seen to have changed, until interrupted. The gateway is\n"+
			"asked again and again, every --interval: what begins and ends in between is not seen.\n\n"+poolHelp,
		cobra.MaximumNArgs(1),
		func(ctx context.Context, a *asking, command *cobra.Command, args []string) error {
			ctx, release := untilSignal(ctx)
			defer release()
			return a.with(command, args, func(from lender, pool uuid.UUID) error {
				return a.watch(ctx, command, from, pool, every)
			})
		})
	command.Flags().Var(duration{&every, 50 * time.Millisecond, time.Hour, false}, "interval", "how often to ask")
	a.addFlags(command)
	return command
}

// watch ends with the context, which is no failure, or with the pool.
func (a *asking) watch(ctx context.Context, command *cobra.Command, from lender, pool uuid.UUID, every time.Duration) error {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	var last *poolAnswer
	failing := ""
	for {
		answer, err := from.inspect(ctx, pool)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, kvslots.ErrNoPool):
			return reportFailure(command.OutOrStdout(), a.json, err)
		case err != nil && last == nil:
			return reportFailure(command.OutOrStdout(), a.json, err)
		case err != nil: // it has worked before; it may again
			if failing != err.Error() {
				failing = err.Error()
				fmt.Fprintf(command.ErrOrStderr(), "kvslots: %s; still trying\n", failing)
			}
		case last == nil || *last != answer:
			if err := report(command.OutOrStdout(), a.json, answer, answer.String()); err != nil {
				return err
			}
			last, failing = &answer, ""
		default:
			failing = ""
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
	}
}
