package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/cmd/kvslots/internal/underlease"
	"github.com/kvslots/kvslots/kvslots/clock"
	"github.com/kvslots/kvslots/kvslots/cosmo"
)

const cosmoRunHelp = `Take a slot of the limit <key>, run the command, release the slot when the command ends, and exit with the command's exit
code, or 128+n if signal n killed it. The command has KVSLOTS_SLOT (the slot key) and KVSLOTS_POSITION (its number) in its
environment, and none of the variables with credentials of kvslots.

Exit codes of kvslots itself: 75, all slots were taken until --wait was over, and the command did not run; 124, kvslots ended
the command because --duration was about to end; 126 and 127, the command cannot be executed or found.

The lease of the slot is --duration, and it is not renewed: the command must end before it. kvslots sends SIGTERM to the
command --kill-after and a margin of 0.25s to 2s before the end, and SIGKILL after --kill-after. kvslots does not notice if
another client releases the slot. Signals and terminals are treated as by "kvslots run".`

func cosmoRunCommand(env settings.Environment) *cobra.Command {
	s := &cosmoSlot{}
	var killAfter time.Duration
	closes := false
	command := newCosmoSubcommand(env, "run <key> [--limit N] [--duration 30s] [--wait 5s] [flags] -- command [argument…]",
		"Run a command while holding a slot of a limit", cosmoRunHelp, nil,
		func(flags *pflag.FlagSet) {
			s.addFlags(flags, "; by default the host's name and the number of the process")
			flags.Var(settings.Duration(&s.wait, 0, 0, settings.MaxDuration), "wait", "how long to wait for a slot")
			flags.Var(settings.Duration(&killAfter, 0, 0, time.Hour), "kill-after",
				"time for the command to end after SIGTERM; 0 means a third of --duration, at most 10s")
			addClose(flags, &closes)
		},
		func() (err error) {
			killAfter, err = timeToEnd(killAfter, "duration", s.duration)
			return err
		},
		func(c *cosmoSubcommand, args []string) error {
			dash := c.ArgsLenAtDash()
			if dash < 0 || dash == len(args) {
				return settings.Usagef("the command is missing: put it after --")
			}
			if err := arguments("<key>")(c.Command, args[:dash]); err != nil {
				return err
			}
			if s.jid == "" {
				s.jid = defaultJobID()
			}
			s.cosmoSubcommand, s.key, s.until = c, args[0], clock.Now()+s.wait
			defer s.close()
			cfg := underlease.Config{Slot: s, KillAfter: killAfter, Close: closes}
			return runUnder(c.Context(), c.Command, args[dash:], settings.WithoutSecrets(os.Environ()), cfg, s.granted)
		})
	command.DisableFlagsInUseLine = true // flags come before the command
	return command
}

func defaultJobID() string {
	host, _ := os.Hostname() // without a name the number is enough
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

type cosmoSlot struct {
	*cosmoSubcommand
	cosmoUse
	key   string
	wait  time.Duration
	until time.Duration // time, by package clock, of the end of the wait

	nc      *nats.Conn // nil until connected
	limiter *cosmo.Limiter
	slot    cosmo.Slot // as last acquired
}

func (s *cosmoSlot) close() {
	if s.nc != nil {
		s.nc.Close()
	}
}

// Borrow acquires a slot. While all slots are taken it tries again until --wait is over.
func (s *cosmoSlot) Borrow(ctx context.Context) (lease underlease.Lease, err error) {
	if s.slot.Key != "" && clock.Now() >= s.until {
		return nil, errors.New("the answers of NATS take too long for so short a --duration")
	}
	if s.nc == nil {
		if s.nc, s.limiter, err = s.open(ctx); err != nil {
			return nil, err
		}
	}
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		began := clock.Now()
		s.slot, err = s.acquire(ctx, s.limiter, s.key)
		if err == nil {
			return fixedLease{s.duration, began + s.duration}, nil
		}
		left := s.until - clock.Now()
		random := pause/2 + rand.N(pause/2) // so that many clients do not come back at the same time
		if !errors.Is(err, errAllTaken) || left <= 0 || !clock.Sleep(ctx, min(random, left)) {
			return nil, err
		}
	}
}

// fixedLease is a lease that is not renewed, and of whose end nothing tells.
type fixedLease struct {
	ttl  time.Duration
	ends time.Duration // by package clock
}

func (l fixedLease) TTL() time.Duration { return l.ttl }

func (l fixedLease) Left() time.Duration { return l.ends - clock.Now() }

func (fixedLease) Done() <-chan struct{} { return nil }

func (fixedLease) Err() error { return nil }

func (fixedLease) Trouble() error { return nil }

// Return releases the slot. Since Release ignores the end of ctx, Return then closes the
// connection, without which Release fails.
func (s *cosmoSlot) Return(ctx context.Context) error {
	defer context.AfterFunc(ctx, s.nc.Close)()
	return s.limiter.Release(ctx, s.slot)
}

func (s *cosmoSlot) granted() ([]string, error) {
	environment := []string{"KVSLOTS_SLOT=" + s.slot.Key, fmt.Sprintf("KVSLOTS_POSITION=%d", s.slot.Number)}
	if !s.json {
		return environment, nil
	}
	return environment, report(s.OutOrStdout(), true, answerOf(s.slot), "")
}
