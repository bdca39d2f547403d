package main

import (
	"context"
	"errors"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/server"
	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots"
)

func topCommand(env settings.Environment) *cobra.Command {
	var l listing
	var every time.Duration
	once := false
	return newOperatorCommand(env, "top [--sort waiting] [--match TEXT] [--contended] [--once]", "Show pools, locks and semaphores in the terminal, live",
		"Show the table of \"kvslots ls\" in the terminal, and read it again when something has changed, and every --interval. Up and down choose a row; Enter opens\n"+
			"it and shows who holds its slots and who waits; Esc goes back. s changes the order, / filters by name or hash, c shows\n"+
			"only those with borrowers in line, q ends.",
		cobra.NoArgs,
		func(flags *pflag.FlagSet) {
			l.addFlags(flags)
			flags.Var(settings.Duration(&every, time.Second, 50*time.Millisecond, time.Hour), "interval", "how often to read")
			flags.BoolVar(&once, "once", false, "print the table once and exit: for scripts")
		},
		func(ctx context.Context, o *gatewayCommand, _ []string) error {
			if !once && (o.json || !server.IsTerminal(o.OutOrStdout())) {
				return settings.Usagef("--once is needed with --json, and if standard output is not a terminal")
			}
			return o.with(func(from *lender) error {
				if once {
					return o.list(ctx, from, &l)
				}
				ctx, release := untilSignal(ctx)
				defer release()
				l.load()
				follow := func(ctx context.Context, tell func()) { from.tellChanges(ctx, tell) }
				return runTop(ctx, &top{reader: from, query: l.query, every: every, follow: follow}, tea.WithInput(o.InOrStdin()), tea.WithOutput(o.OutOrStdout()))
			})
		}).Command
}

// runTop shows m until the user or ctx ends it. It returns an error if the first reading fails, and
// shows those of later ones.
func runTop(ctx context.Context, m *top, options ...tea.ProgramOption) error {
	first := m.begin(ctx)().(topRead)
	if first.err != nil {
		return unlessInterrupted(ctx, first.err)
	}
	m.take(first)
	m.ctx = ctx
	program := tea.NewProgram(m, append(options, tea.WithContext(ctx), tea.WithoutSignalHandler())...)
	stop := server.Background(func(stopped context.Context) {
		m.follow(stopped, func() { program.Send(topChanged(true)) })
		program.Send(topChanged(false))
	})
	_, err := program.Run()
	stop()
	m.cancel()
	if ctx.Err() != nil && errors.Is(err, tea.ErrProgramKilled) {
		return nil
	}
	return err
}

type topReader interface {
	pools(ctx context.Context, q kvslots.PoolQuery, limit int) (all []kvslots.PoolStats, next string, err error)
	read(ctx context.Context, pool kvslots.PoolRef, page kvslots.DetailPage) (kvslots.PoolDetail, error)
}

// maxShown bounds the pools, leases and places that top reads.
const maxShown = 1000

type topRead struct {
	number int // of the reading; older than the last one that was begun: out of date
	pools  []kvslots.PoolStats
	more   bool
	detail *kvslots.PoolDetail // nil if no row is open, or its pool is gone
	err    error
}

// topChanged says that something has changed, or, if false, that changes are told no more.
type topChanged bool

// topDue says that the next reading is due, after the one with this number.
type topDue int

func (m *top) begin(ctx context.Context) tea.Cmd {
	if m.cancel != nil {
		m.cancel()
	}
	ctx, m.cancel = context.WithCancel(ctx)
	m.number++
	m.busy = true
	number, query, open, reader := m.number, m.query, m.open, m.reader
	return func() tea.Msg {
		result := topRead{number: number}
		if open.IsZero() {
			var next string
			result.pools, next, result.err = reader.pools(ctx, query, maxShown)
			result.more = next != ""
			return result
		}
		detail, err := reader.read(ctx, kvslots.RefOf(&kvslots.PoolStats{Hash: open}), kvslots.DetailPage{MaxHolders: maxShown, MaxWaiters: maxShown})
		result.detail = &detail
		if errors.Is(err, kvslots.ErrNoPool) {
			result.detail, err = nil, nil
		}
		result.err = err
		return result
	}
}

// shownAfter is how long top gathers changes before it reads them.
const shownAfter = 100 * time.Millisecond

// later returns the command that waits until the next reading is due: for long if changes are told,
// and no time that is shown grows.
func (m *top) later() tea.Cmd {
	if m.told && m.open.IsZero() && !slices.ContainsFunc(m.pools, func(p kvslots.PoolStats) bool { return p.Waiting > 0 }) {
		return m.dueAfter(max(m.every, watchAgain))
	}
	return m.dueAfter(m.every)
}

func (m *top) dueAfter(d time.Duration) tea.Cmd {
	number := m.number
	return tea.Tick(d, func(time.Time) tea.Msg { return topDue(number) })
}
