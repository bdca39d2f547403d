package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots"
)

func outCommand(env settings.Environment) *cobra.Command {
	reason := ""
	return newTargetCommand(env, "out [<pool>] <position> [--reason TEXT]", "Take a position of a pool out of service",
		"Take a position out of service, such as one whose device is broken: it is not lent until \"kvslots in\". A lease that it\n"+
			"has goes on, and may be renewed. The pool keeps its count. To repeat the command changes the reason.",
		[]string{"<position>"}, func(flags *pflag.FlagSet) { addReason(flags, &reason) },
		func(ctx context.Context, t *target, args []string) error {
			position, err := parsePosition(args[0])
			if err != nil {
				return err
			}
			return t.takeOut(ctx, kvslots.OutOfService{Position: position, Reason: reason})
		})
}

func inCommand(env settings.Environment) *cobra.Command {
	return newTargetCommand(env, "in [<pool>] <position>", "Put a position of a pool back into service",
		"Put a position back into service, which \"kvslots out\" has taken out. That is no error if it is in service.",
		[]string{"<position>"}, nil,
		func(ctx context.Context, t *target, args []string) error {
			position, err := parsePosition(args[0])
			if err != nil {
				return err
			}
			return t.putBack(ctx, position)
		})
}

func addReason(flags *pflag.FlagSet, reason *string) {
	flags.StringVar(reason, "reason", "", "why, for people: up to 64 printable characters; no secret")
}

func parsePosition(text string) (int, error) {
	position, err := strconv.Atoi(text)
	if err != nil || position < 0 || position > kvslots.MaxSemaphoreLimit {
		return 0, settings.Usagef("<position> must be an integer between 0 and %d", kvslots.MaxSemaphoreLimit)
	}
	return position, nil
}

func (t *target) takeOut(ctx context.Context, out kvslots.OutOfService) error {
	if err := checkText("reason", out.Reason); err != nil {
		return err
	}
	state, err := t.from.TakeOut(ctx, t.pool, out)
	return t.changed(ctx, state, err)
}

func (t *target) putBack(ctx context.Context, position int) error {
	state, err := t.from.PutBack(ctx, t.pool, position)
	return t.changed(ctx, state, err)
}

func (t *target) changed(ctx context.Context, state kvslots.State, err error) error {
	return t.answer(t.from.explain(err), state, poolAnswer{State: state}.String())
}
