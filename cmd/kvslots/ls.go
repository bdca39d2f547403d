package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/server"
	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

type listing struct {
	sort  string
	query kvslots.PoolQuery
	limit int
}

func (l *listing) addFlags(flags *pflag.FlagSet) {
	flags.Var(settings.Choice(&l.sort, wire.NameOf(kvslots.ByWaiting), orderNames()...), "sort", "begin with the pools that have most of this: waiting (borrowers in line, then slots in use), oldest_wait, in_use, or expired (leases within the last hour)")
	flags.StringVar(&l.query.Match, "match", "", "list only pools with this in their name, or at the beginning of their hash")
	flags.StringVar(&l.query.Holder, "holder", "", "list only pools with this in the label of a holder, or of a borrower in line")
	flags.BoolVar(&l.query.Waiting, "contended", false, "list only pools with borrowers in line")
}

const defaultListed = 100

func addLimit(flags *pflag.FlagSet, limit *int) {
	flags.Var(settings.Number(limit, defaultListed, 0, 1_000_000), "limit", "how many to list at most; 0 lists all")
}

// orders are the values of --sort, in the order in which top changes it.
var orders = []kvslots.PoolOrder{kvslots.ByWaiting, kvslots.ByOldestWait, kvslots.ByInUse, kvslots.ByExpired}

func orderNames() (names []string) {
	for _, order := range orders {
		names = append(names, wire.NameOf(order))
	}
	return names
}

// load sets the order. The flag has checked its name.
func (l *listing) load() {
	for _, order := range orders {
		if wire.NameOf(order) == l.sort {
			l.query.Order = order
		}
	}
}

func lsCommand(env settings.Environment) *cobra.Command {
	var l listing
	return newOperatorCommand(env, "ls [--sort waiting] [--match TEXT] [--contended]", "List pools, locks and semaphores, the most contended first",
		"List the registered pools, and the locks and semaphores that are held or waited for: name, what is out of service, slots\n"+
			"in use of all, borrowers in line, how long the first of them has waited, leases that expired within the last hour, type,\n"+
			"and the beginning of the hash. \"kvslots holders\" and \"kvslots line\" take the name or the beginning of the hash.",
		cobra.NoArgs,
		func(flags *pflag.FlagSet) {
			l.addFlags(flags)
			addLimit(flags, &l.limit)
		},
		func(ctx context.Context, o *gatewayCommand, _ []string) error {
			return o.with(func(from *lender) error { return o.list(ctx, from, &l) })
		}).Command
}

func (o *gatewayCommand) list(ctx context.Context, from *lender, l *listing) error {
	l.load()
	pools, next, err := from.pools(ctx, l.query, l.limit)
	if err != nil {
		return err
	}
	return o.reportPart(wire.NewPoolList(pools, next), table(poolRows(pools, server.IsTerminal(o.OutOrStdout()))), next != "")
}

// reportPart prints a result that may be a part, because of --limit.
func (o *gatewayCommand) reportPart(body any, text string, more bool) error {
	if err := report(o.OutOrStdout(), o.json, body, text); err != nil {
		return err
	}
	if more && !o.json {
		fmt.Fprintln(o.ErrOrStderr(), "kvslots: there are more; --limit 0 lists all")
	}
	return nil
}

func (l *lender) pools(ctx context.Context, q kvslots.PoolQuery, limit int) (all []kvslots.PoolStats, next string, err error) {
	for {
		q.Max = pageSize(limit, len(all))
		page, after, err := l.ReadPools(ctx, q)
		all, q.After, err = append(all, page...), after, l.explain(err)
		if err != nil || q.After == "" || len(page) == 0 || limit > 0 && len(all) >= limit {
			return all, q.After, err
		}
	}
}

func pageSize(limit, listed int) int {
	if limit == 0 {
		return kvslots.MaxPoolsRead
	}
	return min(limit-listed, kvslots.MaxPoolsRead)
}

// poolRows returns the rows of a table, with its head. The columns that people look for
// first fit into 80 characters, if long names are shortened.
func poolRows(pools []kvslots.PoolStats, shorten bool) [][]string {
	rows := [][]string{{"NAME", "STATE", "IN USE", "WAITING", "OLDEST WAIT", "EXPIRED", "TYPE", "HASH"}}
	for i := range pools {
		p := &pools[i]
		oldest := "-"
		if p.Waiting > 0 {
			oldest = age(time.Duration(p.OldestWait))
		}
		name := nameOf(p)
		if shorten {
			name = shortened(name)
		}
		rows = append(rows, []string{
			name, stateOf(p), fmt.Sprintf("%d/%d", p.InUse, p.Count), strconv.Itoa(p.Waiting), oldest, strconv.Itoa(p.Expired), legible(p.Type), p.Hash.String()[:8],
		})
	}
	return rows
}

func stateOf(p *kvslots.PoolStats) string {
	switch {
	case p.Paused:
		return "paused"
	case p.Out > 0:
		return fmt.Sprintf("%d out", p.Out)
	}
	return "-"
}

// nameOf returns the key of a lock or a semaphore, or the public name of a pool.
func nameOf(p *kvslots.PoolStats) string { return cmp.Or(legible(p.Key+p.Name), "-") }

// maxNameShown is how many characters of a name the table has in a terminal.
const maxNameShown = 32

func shortened(name string) string {
	if characters := []rune(name); len(characters) > maxNameShown {
		return string(characters[:maxNameShown-1]) + "…"
	}
	return name
}
