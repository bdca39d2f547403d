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

type poolCommand struct {
	*cobra.Command
	at   settings.Gateway
	env  settings.Environment
	json bool
}

const gatewayHelp = `The command asks a gateway over HTTP, or over NATS if --nats-url is given. Every flag can also be given as an
environment variable: --nats-url as KVSLOTS_NATS_URL.`

// newPoolCommand returns a command that calls do. ownFlags declares the flags that other
// commands do not have; nil means that there are none.
func newPoolCommand(env settings.Environment, use, short, long string, args cobra.PositionalArgs, ownFlags func(*pflag.FlagSet),
	do func(ctx context.Context, p *poolCommand, args []string) error,
) *cobra.Command {
	p := &poolCommand{env: env}
	p.Command = &cobra.Command{
		Use:   use,
		Short: short,
		Long:  strings.TrimSpace(long) + "\n\n" + poolHelp + "\n\n" + gatewayHelp,
		Args:  args,
		RunE: func(command *cobra.Command, args []string) error {
			if err := load(p.Command, env, &p.at); err != nil {
				return err
			}
			return do(p.Context(), p, args)
		},
	}
	p.Flags().SortFlags = false
	if ownFlags != nil {
		ownFlags(p.Flags())
	}
	p.Flags().BoolVar(&p.json, "json", false, "print the body of the answer over HTTP, a line of JSON; an error, too")
	p.at.AddFlags(p.Flags())
	return p.Command
}

// pool returns the pool that was given in args, or else in the environment.
func (p *poolCommand) pool(args []string) (uuid.UUID, error) {
	if len(args) > 0 {
		return secretArgument(p.Command, "<pool>", args[0])
	}
	value := p.env[settings.PoolVariable]
	if value == "" {
		return uuid.UUID{}, settings.Usagef("no <pool>, and no %s", settings.PoolVariable)
	}
	return parseSecret(settings.PoolVariable, value)
}

// with connects to a gateway, and calls do with the pool that was given in args, or else
// in the environment.
func (p *poolCommand) with(args []string, do func(from *lender, pool uuid.UUID) error) error {
	pool, err := p.pool(args)
	if err != nil {
		return err
	}
	from, err := dial(&p.at, p.ErrOrStderr())
	if err != nil {
		return err
	}
	defer from.Close()
	return do(from, pool)
}

func (p *poolCommand) answer(err error, body fmt.Stringer) error {
	if err != nil {
		return coded(err)
	}
	return report(p.OutOrStdout(), p.json, body, body.String())
}

// why returns the reason of a refusal, a pause or a holder, or otherwise if it is not known.
func why(err error, otherwise string) string {
	refused, ok := errors.AsType[*kvslots.NoSlotError](err)
	switch {
	case ok && refused.Paused:
		return withReason("paused", refused.Reason)
	case ok && refused.HeldBy != "":
		return fmt.Sprintf("taken by %s, for %s", legible(refused.HeldBy), age(refused.HeldFor))
	}
	return otherwise
}

// placed adds to the text of an error the caller's place in line, if that is known.
func placed(err error) error {
	if refused, ok := errors.AsType[*kvslots.NoSlotError](err); ok {
		text := err.Error()
		if reason := why(err, ""); reason != "" && text == kvslots.ErrNoSlot.Error() {
			text += ": " + reason
		}
		return fmt.Errorf("%s%w; place %d in the line", text, silent{err}, refused.Place)
	}
	return err
}

// coded returns the error of a gateway with the exit code that scripts depend on.
func coded(err error) error {
	if _, ok := errors.AsType[exitError](err); !ok && errors.Is(err, kvslots.ErrNoSlot) {
		return exitError{exitNoSlot, placed(err)}
	}
	return err
}
