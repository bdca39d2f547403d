package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvslots/kvslots/bench"
	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
)

const benchHelp = `
Measure borrow and return at a gateway, as its clients do. If the machine is also used for other work, only ratios are
meaningful.

Without --server the command starts gateways, each in a process of its own and on an empty directory, and ends them. With
--server it measures that gateway, over HTTP: it registers pools and deletes them again, which leaves small markers in the
bucket.

Progress goes to standard error, the table to standard output.`

func benchCommand(env settings.Environment) *cobra.Command {
	var cfg bench.Config
	var asJSON bool
	var dir string
	var at settings.Gateway
	command := newCommand(env, &at, "bench", "Measure the throughput and latency of a gateway", benchHelp, cobra.NoArgs,
		func(command *cobra.Command, _ []string) (err error) {
			cfg.Progress = command.ErrOrStderr()
			if at.Server == "" {
				cfg.Start = func(ctx context.Context, sync string) (*bench.Gateway, error) { return startMeasured(ctx, dir, sync) }
			} else if cfg.Server, err = measuredServer(command.Context(), at); err != nil {
				return err
			}
			return runBench(command.Context(), cfg, command.OutOrStdout(), asJSON)
		})
	flags := command.Flags()
	at.AddBenchFlags(flags)
	flags.StringSliceVar(&cfg.Workloads, "workload", nil, "measure only these workloads: "+strings.Join(bench.WorkloadNames(), ", "))
	flags.StringSliceVar(&cfg.Transports, "transport", nil, "measure only these transports: "+strings.Join(bench.TransportNames(), ", "))
	flags.StringSliceVar(&cfg.Syncs, "sync", nil, "measure only these sync modes: "+strings.Join(bench.SyncNames(), ", "))
	flags.IntSliceVar(&cfg.Clients, "clients", nil, "numbers of operations in flight of the workload pairs (default 1,8,64,512)")
	flags.Var(settings.Decimal(&cfg.Rate, 1, 1e6), "rate", "arrivals per second of the workload arrivals; 0 means 1000")
	flags.Var(settings.Duration(&cfg.Duration, bench.DefaultDuration, 10*time.Millisecond, time.Hour), "duration", "duration of each repetition")
	flags.Var(settings.Number(&cfg.Repetitions, bench.DefaultRepetitions, 1, 100), "repetitions", "number of repetitions of each case, in turn with other cases")
	flags.Var(settings.Number(&cfg.Scale, 1, 1, 1_000_000), "scale", "divide the numbers of pools, waiters, slots and clients by this, except those of the workload pairs, for a short run")
	flags.StringVar(&dir, "dir", "", "directory of the servers' data; by default the directory for temporary files")
	flags.BoolVar(&asJSON, "json", false, "print the report as JSON instead of the table")
	return command
}

func runBench(ctx context.Context, cfg bench.Config, stdout io.Writer, asJSON bool) error {
	ctx, release := untilSignal(ctx)
	defer release()
	report, err := bench.Run(ctx, cfg)
	if report == nil {
		return settings.Usagef("%w", err)
	}
	if asJSON {
		err = errors.Join(err, report.WriteJSON(stdout))
	} else {
		err = errors.Join(err, report.WriteTable(stdout))
	}
	return unlessInterrupted(ctx, errors.Join(err, ctx.Err()))
}
