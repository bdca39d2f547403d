package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// terms are what is borrowed for how long.
type terms struct{ ttl, wait time.Duration }

func (t *terms) addFlags(flags *pflag.FlagSet) {
	t.ttl = 30 * time.Second
	flags.Var(duration{&t.ttl, time.Second, maxDuration, true}, "ttl", "how long the lease lasts; the gateway may grant less")
	flags.Var(duration{&t.wait, 0, maxDuration, true}, "wait", "how long to wait for a slot; the gateway may wait less")
}

func borrowCommand(env lookupEnv) *cobra.Command {
	var t terms
	command, a := askCommand(env, "borrow [<pool>] [--ttl 30s] [--wait 5s]", "Borrow a slot",
		"Borrow the lowest free slot, and print its lease as assignments for a shell:\n\n"+
			"    eval \"$(kvslots borrow --ttl 30s --wait 5s)\"\n\n"+
			"While no gateway can be reached, or gateways ask to come again later (429, 502, 503, 504), the wait goes on until\n"+
			"--wait is over. A lease that is shorter than --ttl is announced on standard error.\n\n"+
			"The exit code is 75 when no slot could be had in time. See \"run\" for what borrows, returns and takes care of the\n"+
			"lease's end in between.\n\n"+poolHelp,
		cobra.MaximumNArgs(1),
		func(ctx context.Context, a *asking, command *cobra.Command, args []string) error {
			ctx, release := untilSignal(ctx)
			defer release()
			pool, err := poolArgument(command, a.env, args)
			if err != nil {
				return err
			}
			lease, err := borrowOnce(ctx, newWaiting(t, command.ErrOrStderr()), &a.connection, pool)
			if err != nil && ctx.Err() != nil {
				return interrupted(ctx)
			}
			return a.tell(command.OutOrStdout(), err, lease)
		})
	t.addFlags(command.Flags())
	a.addFlags(command)
	return command
}

func borrowOnce(ctx context.Context, w *waiting, at *connection, pool uuid.UUID) (leaseAnswer, error) {
	from, err := w.dial(ctx, at)
	if err != nil {
		return leaseAnswer{}, err
	}
	defer from.close()
	lease, err := w.borrow(ctx, from, pool)
	if err == nil {
		w.printShortfall(lease.lease)
	}
	return lease.lease, err
}

// String has the names that "run" gives to its command.
func (l leaseAnswer) String() string {
	return fmt.Sprintf("%s=%s\n%s=%d\n%s=%d\nKVSLOTS_EXPIRES_IN=%d",
		leaseVariable, l.Lease, positionVariable, l.Position, fenceVariable, l.Fence, l.ExpiresIn)
}
