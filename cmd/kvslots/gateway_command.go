package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots"
)

// gatewayCommand is a command that sends requests to a gateway.
type gatewayCommand struct {
	*cobra.Command
	at   settings.Gateway
	env  settings.Environment
	json bool
}

const gatewayHelp = `The command asks a gateway over HTTP, or over NATS if --nats-url is given. Every flag can also be given as an
environment variable: --nats-url as KVSLOTS_NATS_URL.`

// newGatewayCommand returns a command that calls do. ownFlags declares the flags that other
// commands do not have; nil means that there are none.
func newGatewayCommand(env settings.Environment, use, short, long string, args cobra.PositionalArgs, ownFlags func(*pflag.FlagSet),
	do func(ctx context.Context, c *gatewayCommand, args []string) error,
) *gatewayCommand {
	c := &gatewayCommand{env: env}
	c.Command = newCommand(env, &c.at, use, short, strings.TrimSpace(long)+"\n\n"+gatewayHelp, args,
		func(command *cobra.Command, args []string) error { return do(command.Context(), c, args) })
	if ownFlags != nil {
		ownFlags(c.Flags())
	}
	addJSONFlag(c.Flags(), &c.json)
	c.at.AddFlags(c.Flags())
	return c
}

// newPoolCommand is newGatewayCommand of a command about a pool whose UUID the user has.
func newPoolCommand(env settings.Environment, use, short, long string, args cobra.PositionalArgs, ownFlags func(*pflag.FlagSet),
	do func(ctx context.Context, c *gatewayCommand, args []string) error,
) *cobra.Command {
	return newGatewayCommand(env, use, short, strings.TrimSpace(long)+"\n\n"+poolHelp, args, ownFlags, do).Command
}

// pool returns the pool that was given in args, or else in the environment.
func (c *gatewayCommand) pool(args []string) (uuid.UUID, error) {
	if len(args) > 0 {
		return secretArgument(c.Command, "<pool>", args[0])
	}
	value := c.env[settings.PoolVariable]
	if value == "" {
		return uuid.UUID{}, settings.Usagef("no <pool>, and no %s", settings.PoolVariable)
	}
	return parseSecret(settings.PoolVariable, value)
}

func (c *gatewayCommand) with(do func(from *lender) error) error {
	from, err := dial(&c.at, c.ErrOrStderr())
	if err != nil {
		return err
	}
	defer from.Close()
	return do(from)
}

// withPool is with for the pool that was given in args, or else in the environment.
func (c *gatewayCommand) withPool(args []string, do func(from *lender, pool uuid.UUID) error) error {
	pool, err := c.pool(args)
	if err != nil {
		return err
	}
	return c.with(func(from *lender) error { return do(from, pool) })
}

var leaseArguments = []string{"[<pool>]", "[<lease>]"}

// withLease is withPool for the lease that is the last of args, too, or else in the environment. An argument alone
// is the lease, unless there is no pool then.
func (c *gatewayCommand) withLease(args []string, do func(from *lender, pool, lease uuid.UUID) error) (err error) {
	var lease uuid.UUID
	last := len(args) - 1
	switch {
	case last == 1, last == 0 && c.env[settings.PoolVariable] != "":
		lease, err = secretArgument(c.Command, "<lease>", args[last])
		args = args[:last]
	case c.env[settings.LeaseVariable] == "":
		return settings.Usagef("<pool> or <lease> is missing: give both, or set %s or %s", settings.PoolVariable, settings.LeaseVariable)
	default:
		lease, err = parseSecret(settings.LeaseVariable, c.env[settings.LeaseVariable])
	}
	if err != nil {
		return err
	}
	return c.withPool(args, func(from *lender, pool uuid.UUID) error { return do(from, pool, lease) })
}

func (c *gatewayCommand) answer(err error, body fmt.Stringer) error {
	if err != nil {
		return coded(err)
	}
	return report(c.OutOrStdout(), c.json, body, body.String())
}

// coded returns the error of a gateway with the exit code that scripts depend on.
func coded(err error) error {
	if _, ok := errors.AsType[exitError](err); !ok && errors.Is(err, kvslots.ErrNoSlot) {
		return exitError{exitNoSlot, err}
	}
	return err
}
