package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

func lineCommand(env settings.Environment) *cobra.Command {
	limit := 0
	return newTargetCommand(env, "line [<pool>]", "Show who waits for a pool, a lock or a semaphore",
		"Print the pool's state, and a line for each borrower that waits for a slot, in the order in which they are served: the\n"+
			"place, for how long it has waited, and the label that the borrower has given.",
		nil, func(flags *pflag.FlagSet) { addLimit(flags, &limit) },
		func(ctx context.Context, t *target, _ []string) error {
			detail, err := t.from.line(ctx, t.pool, limit)
			if err != nil {
				return t.answer(err, nil, "")
			}
			body := wire.NewPoolDetail(&detail, kvslots.DetailPage{MaxWaiters: 1})
			return t.reportPart(body, poolHead(&detail)+"\n"+table(waiterRows(&detail)), body.NextAfter > 0)
		})
}

func (l *lender) line(ctx context.Context, pool kvslots.PoolRef, limit int) (all kvslots.PoolDetail, err error) {
	for page := (kvslots.DetailPage{}); ; {
		listed := all.Waiters
		page.MaxWaiters = pageSize(limit, len(listed))
		all, err = l.read(ctx, pool, page)
		read := len(all.Waiters)
		all.Waiters = append(listed, all.Waiters...)
		if err != nil || read == 0 || limit > 0 && len(all.Waiters) >= limit {
			return all, err
		}
		if page.After = all.Waiters[len(all.Waiters)-1].Place; page.After >= all.Waiting {
			return all, nil
		}
	}
}

func waiterRows(d *kvslots.PoolDetail) [][]string {
	rows := [][]string{{"PLACE", "WAITED", "LABEL"}}
	for _, w := range d.Waiters {
		rows = append(rows, []string{strconv.Itoa(w.Place), age(w.Waited), legible(w.Label)})
	}
	return rows
}
