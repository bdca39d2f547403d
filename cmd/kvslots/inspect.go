package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots/wire"
)

func inspectCommand(env settings.Environment) *cobra.Command {
	return newPoolCommand(env, "inspect [<pool>]", "Print the state of a pool",
		"Print how many slots the pool has, how many are in use and available, and how many borrowers wait; then the pool's\n"+
			"hash, by which operators know it, its public name, and what is out of service.",
		arguments("[<pool>]"), nil,
		func(ctx context.Context, p *gatewayCommand, args []string) error {
			return p.withPool(args, func(from *lender, pool uuid.UUID) error {
				answer, err := from.inspect(ctx, pool)
				return p.answer(err, answer)
			})
		})
}

type inspection wire.Inspection

func (i inspection) String() string {
	lines := []string{poolAnswer(i.Pool).String(), "hash " + i.Hash.String()}
	if i.Name != "" {
		lines = append(lines, "name "+legible(i.Name))
	}
	if i.Paused {
		lines = append(lines, withReason("paused", i.PauseReason))
	}
	for _, out := range i.OutOfService {
		lines = append(lines, withReason(fmt.Sprintf("position %d out of service", out.Position), out.Reason))
	}
	return strings.Join(lines, "\n")
}

func withReason(text, reason string) string {
	if reason == "" {
		return text
	}
	return text + ": " + legible(reason)
}
