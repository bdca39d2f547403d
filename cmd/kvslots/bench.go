package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvslots/kvslots/bench"
)

const benchHelp = `
Measure borrow and return by every door, beside the limits of this machine, as ratios that hold on a noisy one. Without
--server it starts gateways of its own, in this process and on empty directories, and removes them at the end.
With --server it measures that gateway, over HTTP: it registers pools and deletes them again, which leaves small markers
in its bucket.

Progress goes to standard error, the table to standard output. A line for each target begins with "met" or "missed".`

// benchCommand measures; bench/README.md is its manual.
func benchCommand(env lookupEnv) *cobra.Command {
	var cfg bench.Config
	var asJSON, peerStatus bool
	var plots string
	var token authToken
	cfg.Limits = true
	command := &cobra.Command{
		Use:   "bench",
		Short: "Measure a gateway, or one of its own",
		Long:  strings.TrimSpace(benchHelp),
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := applyEnvironment(command.Flags(), env); err != nil {
				return err
			}
			if err := token.load(command.Flags(), command.InOrStdin()); err != nil {
				return err
			}
			cfg.Token, cfg.Progress = token.value, command.ErrOrStderr()
			if peerStatus {
				return printPeerStatus(command.OutOrStdout())
			}
			cfg.Holder = holderCommand()
			return runBench(command.Context(), cfg, command.OutOrStdout(), asJSON, plots)
		},
	}
	flags := command.Flags()
	flags.SortFlags = false
	flags.StringVar(&cfg.Server, serverFlag, "", "measure the gateway at this URL, by the doors http and v1")
	token.addFlags(flags, "the bearer token that --server asks for")
	flags.StringSliceVar(&cfg.Workloads, "workload", nil, "only these: "+strings.Join(bench.WorkloadNames(), ", "))
	flags.StringSliceVar(&cfg.Doors, "door", nil, "only these: "+strings.Join(bench.DoorNames(), ", "))
	flags.StringSliceVar(&cfg.Syncs, "sync", nil, "only these: "+strings.Join(bench.SyncNames(), ", "))
	flags.IntSliceVar(&cfg.Clients, "clients", nil, "operations in flight of the workload pairs (default 1,8,64,512)")
	flags.Var(decimal(&cfg.Rate, 1, 1e6), "rate", "arrivals a second of the workload arrivals; 0 means 1000")
	cfg.Duration, cfg.Repetitions, cfg.Scale = bench.DefaultDuration, bench.DefaultRepetitions, 1
	flags.Var(duration(&cfg.Duration, 10*time.Millisecond, time.Hour), "duration", "of each repetition")
	flags.Var(number(&cfg.Repetitions, 1, 100), "repetitions", "of each case, in turn with the others")
	flags.Var(number(&cfg.Scale, 1, 1_000_000), "scale", "divide the numbers of pools and waiters by this, for a short look")
	flags.BoolVar(&cfg.Limits, "limits", cfg.Limits, "measure the limits of this machine in turn with the workload pairs")
	flags.BoolVar(&cfg.Peers, "peers", false, "measure Redis, etcd and plain KV in turn with the workload pairs, those that are installed; in a build by make bench only")
	flags.BoolVar(&peerStatus, "peer-status", false, "only print which servers of --peers are installed")
	flags.StringVar(&cfg.Dir, "dir", "", "keep the servers' data in this directory; by default, in that for temporary files")
	flags.BoolVar(&asJSON, "json", false, "print the report as JSON instead of the table")
	flags.StringVar(&plots, "plots", "", "write plots as SVG files into this directory")
	command.AddCommand(holdCommand())
	return command
}

func printPeerStatus(stdout io.Writer) error {
	lines, err := bench.PeerStatus()
	if err != nil {
		return usageError{err}
	}
	_, err = fmt.Fprintln(stdout, strings.Join(lines, "\n"))
	return err
}

// runBench prints what was measured, even when it was interrupted.
func runBench(ctx context.Context, cfg bench.Config, stdout io.Writer, asJSON bool, plots string) error {
	ctx, release := untilSignal(ctx)
	defer release()
	report, err := bench.Run(ctx, cfg)
	if report == nil {
		return usageError{err}
	}
	if asJSON {
		err = errors.Join(err, report.WriteJSON(stdout))
	} else {
		err = errors.Join(err, report.WriteTable(stdout))
	}
	if plots != "" && err == nil {
		_, err = report.WritePlots(plots)
	}
	if ctx.Err() != nil {
		return interrupted(ctx)
	}
	return err
}

// holdName is the hidden command that holds the connections of waiters.
const holdName = "hold-connections"

// holderCommand starts this program anew. Without its path, or in a test, where
// the program is another one, the connections are held in this process.
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
