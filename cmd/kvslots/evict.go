package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

func evictCommand(env settings.Environment) *cobra.Command {
	var position int
	var fence uint64
	return newTargetCommand(env, "evict [<pool>] --position N --fence F", "End one lease of a pool, a lock or a semaphore",
		"End the lease of a position, if it has this fence: \"kvslots holders\" prints both. If another holder has the position by\n"+
			"now, the command ends nothing, says who holds it, and exits with 1. A holder that reaches a gateway learns of it within\n"+
			"5 s; \"kvslots run\" then ends its command. Others may run on until the lease would have ended, or for longer if they do\n"+
			"not ask: a resource is protected by fences.",
		nil,
		func(flags *pflag.FlagSet) {
			flags.Var(settings.Number(&position, 0, 0, kvslots.MaxSemaphoreLimit), "position", "position of the slot")
			flags.Uint64Var(&fence, "fence", 0, "fence of the lease to end")
		},
		func(ctx context.Context, t *target, _ []string) error {
			for _, name := range []string{"position", "fence"} {
				if !t.Flags().Changed(name) {
					return settings.Usagef("--%s is missing: \"kvslots holders\" prints it", name)
				}
			}
			evicted, err := t.from.Evict(ctx, t.pool, position, fence)
			err = t.from.explain(err)
			if errors.Is(err, kvslots.ErrOtherHolder) || errors.Is(err, kvslots.ErrNotHeld) {
				err = t.otherHolder(ctx, position)
			}
			return t.answer(err, wire.Evicted{Evicted: evicted},
				"ended the lease of "+leaseText(&evicted)+"; the holder may run on for "+runsOn(time.Duration(evicted.ExpiresIn)))
		})
}

// otherHolder returns the error of an eviction that has ended nothing, which says who holds the
// position now.
func (t *target) otherHolder(ctx context.Context, position int) error {
	detail, err := t.from.read(ctx, t.pool, kvslots.DetailPage{From: position, MaxHolders: 1})
	switch {
	case err != nil:
		return fmt.Errorf("the position has no lease with this fence; who holds it now is unknown: %w", err)
	case len(detail.Holders) == 0 || detail.Holders[0].Position != position:
		return fmt.Errorf("nothing has ended: no one holds position %d", position)
	}
	return fmt.Errorf("nothing has ended: there is another lease by now, of %s", leaseText(&detail.Holders[0]))
}

// runsOn says for how long a holder may run on whose lease would have lasted for left: it asks whether it still holds it.
func runsOn(left time.Duration) string {
	const knows = 5 * time.Second
	if left < knows+time.Second {
		return age(left)
	}
	return fmt.Sprintf("%s, or for %s if it reaches no gateway", age(knows), age(left))
}

func leaseText(h *kvslots.HolderStats) string {
	text := fmt.Sprintf("position %d, fence %d, held for %s", h.Position, h.Fence, age(time.Duration(h.Age)))
	if h.Label != "" {
		text += " by " + legible(h.Label)
	}
	return text
}
