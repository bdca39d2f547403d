package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots"
)

func holdersCommand(env settings.Environment) *cobra.Command {
	limit := 0
	return newTargetCommand(env, "holders [<pool>]", "Show who holds the slots of a pool, a lock or a semaphore",
		"Print the pool's state, and a line for each slot that is held or out of service: its position, the lease's fence, for\n"+
			"how long it is held, when the lease ends unless it is renewed, and the label that the holder has given.\n"+
			"\"kvslots evict\" takes the position and the fence.",
		nil, func(flags *pflag.FlagSet) { addLimit(flags, &limit) },
		func(ctx context.Context, t *target, _ []string) error {
			detail, err := t.from.holders(ctx, t.pool, limit)
			if err != nil {
				return t.answer(err, nil, "")
			}
			return t.reportPart(detail, poolHead(&detail)+"\n"+table(holderRows(&detail)), detail.NextFrom > 0)
		})
}

func (l *lender) holders(ctx context.Context, pool kvslots.PoolRef, limit int) (all kvslots.PoolDetail, err error) {
	all.Holders = []kvslots.HolderStats{}
	for page := (kvslots.DetailPage{}); ; {
		listed := all.Holders
		page.MaxHolders = pageSize(limit, len(listed))
		all, err = l.read(ctx, pool, page)
		read := len(all.Holders)
		all.Holders = append(listed, all.Holders...)
		if err != nil || all.NextFrom == 0 || read == 0 || limit > 0 && len(all.Holders) >= limit {
			return all, err
		}
		page.From = all.NextFrom
	}
}

func poolHead(d *kvslots.PoolDetail) string {
	head := strings.TrimSpace(legible(d.Type)+" "+d.Hash.String()+" "+legible(d.Key+d.Name)) + "\n" + poolAnswer{State: d.State}.String()
	if d.Paused {
		head += "\n" + withReason("paused", d.PauseReason)
	}
	return head
}

// holderRows returns the rows of a table, with its head. Positions that are out of service are
// among them if they are not after the last lease of a part.
func holderRows(d *kvslots.PoolDetail) [][]string {
	rows := [][]string{{"POSITION", "FENCE", "HELD FOR", "ENDS IN", "LABEL"}}
	out := map[int]string{}
	for _, o := range d.OutOfService {
		out[o.Position] = withReason("out of service", o.Reason)
	}
	last := -1
	free := func(until int) { // adds the positions out of service that no one holds
		for _, o := range d.OutOfService {
			if o.Position > last && o.Position < until {
				rows = append(rows, []string{strconv.Itoa(o.Position), "-", "-", "-", out[o.Position]})
			}
		}
		last = until
	}
	for _, h := range d.Holders {
		free(h.Position)
		label := []string{legible(h.Label), out[h.Position]}
		label = slices.DeleteFunc(label, func(text string) bool { return text == "" })
		rows = append(rows, []string{strconv.Itoa(h.Position), fmt.Sprint(h.Fence), age(time.Duration(h.Age)), age(time.Duration(h.ExpiresIn)), strings.Join(label, "; ")})
	}
	if d.NextFrom == 0 {
		free(kvslots.MaxSemaphoreLimit + 1)
	}
	return rows
}
