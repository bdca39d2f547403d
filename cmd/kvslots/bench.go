package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvslots/kvslots/bench"
	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
)

const benchHelp = `
Measure borrow and return over every transport, and compare them with the limits of this machine. If the machine is also
used for other work, only ratios are meaningful.

Without --server the command starts gateways in this process, on empty directories, and removes them at the end. With
--server it measures that gateway, over HTTP: it registers pools and deletes them again, which leaves small markers in the
bucket.

Progress goes to standard error, the table to standard output. A line for each target begins with "met" or "missed".`

// benchCommand is described in bench/README.md.
func benchCommand(env settings.Environment) *cobra.Command {
	var cfg bench.Config
	var asJSON bool
	var at settings.Gateway
	cfg.Limits = true
	command := &cobra.Command{
		Use:   "bench",
		Short: "Measure the throughput and latency of a gateway",
		Long:  strings.TrimSpace(benchHelp),
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			err := load(command, env, &at)
			if err != nil {
				return err
			}
			if cfg.TLS, err = at.TLS.Config(); err != nil {
				return err
			}
			cfg.Server, cfg.Token, cfg.Progress = at.Server, at.Token.Value, command.ErrOrStderr()
			cfg.Holder = holderCommand()
			return runBench(command.Context(), cfg, command.OutOrStdout(), asJSON)
		},
	}
	flags := command.Flags()
	flags.SortFlags = false
	at.AddBenchFlags(flags)
	flags.StringSliceVar(&cfg.Workloads, "workload", nil, "measure only these workloads: "+strings.Join(bench.WorkloadNames(), ", "))
	flags.StringSliceVar(&cfg.Transports, "transport", nil, "measure only these transports: "+strings.Join(bench.TransportNames(), ", "))
	flags.StringSliceVar(&cfg.Syncs, "sync", nil, "measure only these sync modes: "+strings.Join(bench.SyncNames(), ", "))
	flags.IntSliceVar(&cfg.Clients, "clients", nil, "numbers of operations in flight of the workload pairs (default 1,8,64,512)")
	flags.Var(settings.Decimal(&cfg.Rate, 1, 1e6), "rate", "arrivals per second of the workload arrivals; 0 means 1000")
	cfg.Duration, cfg.Repetitions, cfg.Scale = bench.DefaultDuration, bench.DefaultRepetitions, 1
	flags.Var(settings.Duration(&cfg.Duration, 10*time.Millisecond, time.Hour), "duration", "duration of each repetition")
	flags.Var(settings.Number(&cfg.Repetitions, 1, 100), "repetitions", "number of repetitions of each case, in turn with other cases")
	flags.Var(settings.Number(&cfg.Scale, 1, 1_000_000), "scale", "divide the numbers of pools, waiters, slots and clients by this, except those of the workload pairs, for a short run")
	flags.BoolVar(&cfg.Limits, "limits", cfg.Limits, "measure the limits of this machine in turn with the workload pairs")
	flags.StringVar(&cfg.Dir, "dir", "", "directory of the servers' data; by default the directory for temporary files")
	flags.BoolVar(&asJSON, "json", false, "print the report as JSON instead of the table")
	command.AddCommand(holdCommand())
	return command
}

// runBench measures and prints the report, even after an interruption.
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

// holdName is the name of the hidden command that holds the connections of waiters.
const holdName = "hold-connections"

// holderCommand returns the command that runs this program to hold connections, or nil
// if the path of the program is unknown or names a test program.
func holderCommand() []string {
	program, err := os.Executable()
	if err != nil || strings.HasSuffix(program, ".test") {
		return nil
	}
	return []string{program, "bench", holdName}
}

func holdCommand() *cobra.Command {
	return &cobra.Command{
		Use:    holdName,
		Short:  "Hold connections for a bench in another process",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return bench.HoldConnections(command.Context(), command.InOrStdin(), command.OutOrStdout())
		},
	}
}
