package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
)

// asking is what the commands that ask a gateway about a pool have in common.
type asking struct {
	connection
	env  lookupEnv
	json bool
}

// askCommand makes a command out of its name, its help, and what it does.
func askCommand(env lookupEnv, use, short, long string, args cobra.PositionalArgs,
	do func(ctx context.Context, a *asking, command *cobra.Command, args []string) error,
) (*cobra.Command, *asking) {
	a := &asking{env: env}
	command := &cobra.Command{
		Use:   use,
		Short: short,
		Long:  strings.TrimSpace(long) + "\n\nThe gateway is asked over HTTP, or, with --nats-url, over NATS. Every flag has an environment twin:\n--nats-url is KVSLOTS_NATS_URL.",
		Args:  args,
		RunE: func(command *cobra.Command, args []string) error {
			if err := applyEnvironment(command.Flags(), env); err != nil {
				return err
			}
			if err := a.validate(); err != nil {
				return err
			}
			if err := a.token.load(command.Flags(), command.InOrStdin()); err != nil {
				return err
			}
			return do(command.Context(), a, command, args)
		},
	}
	command.Flags().SortFlags = false
	return command, a
}

// addFlags comes after the command's own flags, so that those are listed
// first.
func (a *asking) addFlags(command *cobra.Command) {
	command.Flags().BoolVar(&a.json, "json", false, "print the body that REST answers with, a line of JSON")
	a.connection.addFlags(command.Flags())
}

// with asks about a pool.
func (a *asking) with(command *cobra.Command, poolArgs []string, do func(from lender, pool uuid.UUID) error) error {
	pool, err := poolArgument(command, a.env, poolArgs)
	if err != nil {
		return err
	}
	from, err := a.dial()
	if err != nil {
		return err
	}
	defer from.close()
	return do(from, pool)
}

// tell prints the answer, or what REST answers to a failure.
func (a *asking) tell(w io.Writer, err error, body fmt.Stringer) error {
	if err != nil {
		return reportFailure(w, a.json, err)
	}
	return report(w, a.json, body, body.String())
}
