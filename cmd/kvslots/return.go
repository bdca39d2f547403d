package main

import (
	"context"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
)

func returnCommand(env lookupEnv) *cobra.Command {
	command, a := askCommand(env, "return [<pool>] <lease>", "Return a lease before its time",
		"Return a lease, and wake whoever waits for the slot. A lease that is unknown, returned or expired is reported\n"+
			"as \"not held\", which is no error: the call may safely be repeated.\n\n"+poolHelp+"<lease> may be @FILE, too.",
		cobra.RangeArgs(1, 2),
		func(ctx context.Context, a *asking, command *cobra.Command, args []string) error {
			last := len(args) - 1
			lease, err := secretArgument(command, "<lease>", args[last])
			if err != nil {
				return err
			}
			return a.with(command, args[:last], func(from lender, pool uuid.UUID) error {
				returned, err := from.giveBack(ctx, pool, lease)
				return a.tell(command.OutOrStdout(), err, returnedAnswer{returned})
			})
		})
	a.addFlags(command)
	return command
}

func (r returnedAnswer) String() string {
	if r.Returned {
		return "returned"
	}
	return "not held"
}
