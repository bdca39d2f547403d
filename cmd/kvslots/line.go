package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots"
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
			return t.reportPart(detail, poolHead(&detail)+"\n"+table(waiterRows(&detail)), detail.NextAfter > 0)
		})
}

func (l *lender) line(ctx context.Context, pool kvslots.PoolRef, limit int) (all kvslots.PoolDetail, err error) {
	all.Waiters = []kvslots.WaiterStats{}
	for page := (kvslots.DetailPage{}); ; {
		listed := all.Waiters
		page.MaxWaiters = pageSize(limit, len(listed))
		all, err = l.read(ctx, pool, page)
		read := len(all.Waiters)
		all.Waiters = append(listed, all.Waiters...)
		if err != nil || all.NextAfter == 0 || read == 0 || limit > 0 && len(all.Waiters) >= limit {
			return all, err
		}
		page.After = all.NextAfter
	}
}

func waiterRows(d *kvslots.PoolDetail) [][]string {
	rows := [][]string{{"PLACE", "WAITED", "LABEL"}}
	for _, w := range d.Waiters {
		rows = append(rows, []string{strconv.Itoa(w.Place), age(time.Duration(w.Waited)), legible(w.Label)})
	}
	return rows
}
