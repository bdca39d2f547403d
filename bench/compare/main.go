package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/bench"
	"github.com/kvslots/kvslots/kvslots"
)

// leaseTTL is the ttl of leases that are returned at once.
const leaseTTL = 10 * time.Minute

var (
	errNotGranted  = errors.New("not granted, though each client has a lock of its own")
	errNotReturned = errors.New("the lease had ended before it was returned")
)

func main() {
	defer runtime.KeepAlive(make([]byte, 32<<20)) // as kvslots serve does (see package server)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

const holdArgument = "hold-connections"

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) == 1 && args[0] == holdArgument {
		return holdConnections(ctx, stdin, stdout)
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	l := &lab{hold: holdElsewhere([]string{program, holdArgument}), testbeds: map[*kvslots.Store]*testbed{}}
	cfg := bench.Config{Progress: stderr, Start: l.start}
	flags := pflag.NewFlagSet("compare", pflag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringSliceVar(&cfg.Workloads, "workload", nil, "measure only these workloads: "+strings.Join(bench.WorkloadNames(), ", "))
	flags.StringSliceVar(&cfg.Transports, "transport", nil, "measure only these transports: "+strings.Join(append(bench.TransportNames(), bench.TransportLibrary), ", "))
	flags.StringSliceVar(&cfg.Syncs, "sync", nil, "measure only these sync modes: "+strings.Join(bench.SyncNames(), ", "))
	flags.IntSliceVar(&cfg.Clients, "clients", nil, "numbers of operations in flight of the workload pairs (default 1,8,64,512)")
	flags.DurationVar(&cfg.Duration, "duration", bench.DefaultDuration, "duration of each repetition, at least 10ms")
	flags.IntVar(&cfg.Repetitions, "repetitions", bench.DefaultRepetitions, "number of repetitions of each case, 1 to 100")
	flags.BoolVar(&l.measuresLimits, "limits", true, "measure the limits of this machine in turn with the workload pairs")
	flags.StringVar(&l.dir, "dir", "", "directory of the servers' data; by default the directory for temporary files")
	asJSON := flags.Bool("json", false, "print the report as JSON instead of the table")
	plots := flags.String("plots", "", "write plots as SVG files into this directory")
	statusOnly := flags.Bool("status", false, "print which lock servers are installed, and exit")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	if *statusOnly {
		_, err := fmt.Fprintln(stdout, strings.Join(status(), "\n"))
		return err
	}
	measured, err := l.measure(ctx, cfg)
	if measured.Report == nil {
		return err
	}
	if *asJSON {
		err = errors.Join(err, measured.writeJSON(stdout))
	} else {
		err = errors.Join(err, measured.writeTable(stdout))
	}
	if *plots != "" && err == nil {
		_, err = writePlots(measured.Report, *plots)
	}
	return err
}
