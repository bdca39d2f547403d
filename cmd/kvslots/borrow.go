package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots"
)

// defaultTTL is that of a slot.
const defaultTTL = 30 * time.Second

type leaseTerms struct {
	ttl, wait time.Duration
	label     string // see kvslots.WithLabel
}

func (t *leaseTerms) addFlags(flags *pflag.FlagSet, ttl, wait time.Duration) {
	t.addTTL(flags, ttl)
	flags.VarP(settings.Wait(&t.wait, wait), "wait", "w", "how long to wait for a slot; 0 does not wait")
	t.addLabel(flags)
}

func (t *leaseTerms) addTTL(flags *pflag.FlagSet, ttl time.Duration) {
	flags.Var(settings.Seconds(&t.ttl, ttl, time.Second, settings.MaxDuration), "ttl", "how long the lease lasts; the gateway may grant less")
}

const borrowHelp = `Borrow the lowest free slot, and print its lease as variables for a shell, which exports them:

    eval "$(kvslots borrow --ttl 30s --wait 5s)" || exit

Without a lease it prints "(exit 75)", or another exit code, so that eval fails. A lease that cannot be printed is returned.

With "--wait forever" kvslots waits without a limit. While no gateway can be reached, or gateways answer 429, 502, 503,
504 or 507, kvslots tries again until --wait is over. It does not lose its place in the line when a gateway ends a wait after its own
--max-wait. If the gateway grants a shorter lease than --ttl, kvslots prints that to standard error.

The exit code is 75 if no slot was free in time; the error says which place in line the command had, or would have got. To hold a slot while a command runs, use "kvslots run".`

func borrowCommand(env settings.Environment) *cobra.Command {
	var t leaseTerms
	command := newPoolCommand(env, "borrow [<pool>] [--ttl 30s] [--wait 5s]", "Borrow a slot", borrowHelp,
		arguments("[<pool>]"),
		func(flags *pflag.FlagSet) { t.addFlags(flags, defaultTTL, 0) },
		func(ctx context.Context, p *gatewayCommand, args []string) error {
			if err := checkText("label", t.label); err != nil {
				return err
			}
			ctx, release := untilSignal(ctx)
			defer release()
			s, err := p.slot(t, args)
			if err != nil {
				return err
			}
			defer s.close()
			err = s.take(ctx)
			returning, cancel := context.WithTimeout(context.WithoutCancel(ctx), kvslots.ReturnTimeout)
			defer cancel()
			switch {
			case ctx.Err() != nil:
				if err == nil {
					_ = s.Return(returning)
				}
				return unlessInterrupted(ctx, context.Cause(ctx))
			case err != nil:
				return exitError{codeOf(err), err}
			}
			s.printShortfall()
			if err = p.answer(nil, s.answer()); err != nil { // the lease is known to no one
				return errors.Join(err, s.Return(returning))
			}
			return nil
		})
	command.Annotations = map[string]string{evaluatedByShell: ""}
	return command
}

func (l leaseAnswer) String() string {
	const exported = "export KVSLOTS_LEASE KVSLOTS_POSITION KVSLOTS_FENCE KVSLOTS_EXPIRES_IN"
	return fmt.Sprintf("%s\nKVSLOTS_EXPIRES_IN=%d\n%s", strings.Join(l.environment(), "\n"), l.ExpiresIn, exported)
}

// environment returns the variables that "run" sets for its command.
func (l leaseAnswer) environment() []string {
	return []string{
		fmt.Sprintf("KVSLOTS_LEASE=%s", l.Lease),
		fmt.Sprintf("KVSLOTS_POSITION=%d", l.Position),
		fmt.Sprintf("KVSLOTS_FENCE=%d", l.Fence),
	}
}
