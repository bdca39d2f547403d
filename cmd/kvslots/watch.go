package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/server"
	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

type watched struct {
	every  time.Duration
	events bool
	all    bool
	keys   []string
	lines  int // of events, after which the command ends; 0: none
}

func watchCommand(env settings.Environment) *cobra.Command {
	var w watched
	command := newOperatorCommand(env, "watch [<pool>]", "Print a line whenever a pool's state changes",
		"Print the state of the pool, and a line after each change, until interrupted. The gateway tells the command when\n"+
			"something has changed; over NATS, and if the gateway cannot, the command asks every --interval. What is undone at\n"+
			"once may not be seen. With --events print each event instead: who was granted what, who returned it, who waits.\n\n"+targetHelp,
		arguments("[<pool>]"),
		func(flags *pflag.FlagSet) {
			flags.Var(settings.Duration(&w.every, time.Second, 50*time.Millisecond, time.Hour), "interval", "how often to ask")
			flags.BoolVar(&w.events, "events", false, "print events instead of states; over HTTP only")
			flags.StringArrayVar(&w.keys, "key", nil, "print the events of the lock or semaphore with this name, instead of a pool's; may be repeated")
			flags.Var(settings.Number(&w.lines, 0, 0, math.MaxInt32), "lines", "end after so many events; 0 means never")
			flags.BoolVar(&w.all, "all", false, "print the events of all pools, locks and semaphores")
		},
		func(ctx context.Context, o *gatewayCommand, args []string) error {
			ctx, release := untilSignal(ctx)
			defer release()
			if w.all || len(w.keys) > 0 {
				return o.watchOthers(ctx, &w, args)
			}
			return o.withTarget(ctx, args, func(t *target) error {
				if w.events {
					return o.printEvents(ctx, t.from, w.lines, t.pool)
				}
				return t.watch(ctx, w.every)
			})
		})
	command.ValidArgsFunction = completeNames(env, &command.at, "pool", "lock", "semaphore")
	return command.Command
}

func (o *gatewayCommand) watchOthers(ctx context.Context, w *watched, args []string) error {
	if len(args) > 0 || w.all && len(w.keys) > 0 {
		return settings.Usagef("give one of <pool>, --key and --all")
	}
	var pools []kvslots.PoolRef
	for _, key := range w.keys {
		pool, err := lockRef("--key", key)
		if err != nil {
			return err
		}
		pools = append(pools, pool)
	}
	return o.with(func(from *lender) error { return o.printEvents(ctx, from, w.lines, pools...) })
}

// printEvents prints events until ctx ends, or so many that are given. It returns an error if the gateway refuses them.
func (o *gatewayCommand) printEvents(ctx context.Context, from *lender, lines int, pools ...kvslots.PoolRef) error {
	watcher := from.Watch(0, pools...)
	defer watcher.Close()
	for {
		events, err := watcher.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errors.ErrUnsupported) && from.overNATS():
			return errors.New("events are read over HTTP: give --server instead of --nats-url")
		case errors.Is(err, errors.ErrUnsupported):
			return errors.New("the gateway's version has no events")
		case err != nil:
			return coded(from.explain(err))
		}
		for i := range events {
			body := wire.NewEvent(&events[i])
			if err := report(o.OutOrStdout(), o.json, body, eventLine(&events[i])); err != nil {
				return err
			}
			if lines--; lines == 0 {
				return nil
			}
		}
	}
}

func eventLine(e *kvslots.Event) string {
	line := fmt.Sprintf("%s %-13s", e.Time.Local().Format("15:04:05.000"), e.Type)
	switch {
	case e.Resource.Key == "" && e.Hash == "":
	case e.Resource.Key == "":
		line += " pool " + cmp.Or(printable(e.Name), e.Hash)
	case e.Resource.Kind == kvslots.KindLock:
		line += " lock " + printable(e.Resource.Key)
	default:
		line += " semaphore " + printable(e.Resource.Key)
	}
	if e.Fence != 0 {
		line += fmt.Sprintf(" position %d fence %d", e.Position, e.Fence)
	}
	if e.Took > 0 {
		line += " after " + e.Took.Round(time.Millisecond).String()
	}
	if e.Label != "" {
		line += " by " + printable(e.Label)
	}
	return strings.TrimRight(line, " ")
}

// watchAgain is how often watch asks a gateway that tells it of changes.
const watchAgain = 15 * time.Second

// watch prints the state until ctx ends. It returns an error if the pool does not exist, or
// if the first request fails.
func (t *target) watch(ctx context.Context, every time.Duration) error {
	told := make(chan struct{}, 1) // of changes
	tell := func() {
		select {
		case told <- struct{}{}:
		default: // a change is told already
		}
	}
	defer server.Background(func(stopped context.Context) { t.from.tellChanges(stopped, tell, t.pool) })()
	var last *kvslots.State
	t.from.hint = "still trying"
	for {
		read, err := t.from.read(ctx, t.pool, kvslots.DetailPage{MaxHolders: -1})
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, kvslots.ErrNoPool), err != nil && last == nil:
			return t.answer(err, nil, "")
		case err != nil: // an earlier request succeeded; a later one may again
			t.from.print(err)
		case last == nil || *last != read.State:
			last, t.from.printed = &read.State, ""
			if err := t.answer(nil, t.state(read.State), poolAnswer{State: read.State}.String()); err != nil {
				return err
			}
		default:
			t.from.printed = ""
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		case <-told:
			every = max(every, watchAgain)
		}
	}
}

// state returns the state of the pool as JSON has it: with the id if that was given.
func (t *target) state(s kvslots.State) any {
	if id, ok := t.pool.ID(); ok {
		return wire.Pool{ID: id, State: s}
	}
	return s
}

// tellChanges calls tell when something may have changed in some pools, or in any if none is given. It returns
// when ctx ends, or the gateway tells no changes.
func (l *lender) tellChanges(ctx context.Context, tell func(), pools ...kvslots.PoolRef) {
	watcher := l.Watch(0, pools...)
	defer watcher.Close()
	for {
		if _, err := watcher.Next(ctx); err != nil {
			return
		}
		tell()
	}
}
