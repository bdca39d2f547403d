package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/cosmo"
)

type limitSubcommand struct {
	*cobra.Command
	nats   settings.NATS
	bucket string
	json   bool
}

const limitHelp = "Limits are in a NATS bucket of their own, separate from the pools, and are shared with the Ruby workers of\n" +
	"Cosmo::Job::Limit. They need no gateway, only a NATS with JetStream."

func limitCommand(env settings.Environment) *cobra.Command {
	command := &cobra.Command{
		Use:   "limit",
		Short: "Take and release slots of limits shared with Cosmo",
		Long:  limitHelp,
		Args:  cobra.NoArgs,
		RunE:  func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(limitAcquireCommand(env), limitReleaseCommand(env))
	return command
}

// newLimitSubcommand returns a command that calls check and do. ownFlags declares the flags
// that the other one does not have.
func newLimitSubcommand(env settings.Environment, use, short, long string, ownFlags func(*pflag.FlagSet), check func() error,
	do func(ctx context.Context, s *limitSubcommand, l *cosmo.Limiter, arg string) error,
) *cobra.Command {
	s := &limitSubcommand{}
	s.Command = &cobra.Command{
		Use: use, Short: short, Long: long + "\n\n" + limitHelp,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := load(command, env, &s.nats); err != nil {
				return err
			}
			if err := check(); err != nil {
				return settings.Usagef("%w", err)
			}
			ctx, release := untilSignal(command.Context())
			defer release()
			err := s.with(ctx, func(l *cosmo.Limiter) error { return do(ctx, s, l, args[0]) })
			if wrong, ok := errors.AsType[*kvslots.RangeError](err); ok {
				return settings.Usagef("%w", wrong)
			}
			return unlessInterrupted(ctx, err)
		},
	}
	flags := s.Flags()
	flags.SortFlags = false
	ownFlags(flags)
	flags.StringVar(&s.bucket, "bucket", cosmo.DefaultBucket, "KV bucket of the limits; created if it does not exist")
	addJSONFlag(flags, &s.json)
	s.nats.AddFlags(flags, nats.DefaultURL, "NATS to use (comma-separated URLs)")
	return s.Command
}

func (s *limitSubcommand) with(ctx context.Context, do func(l *cosmo.Limiter) error) error {
	nc, err := dialNATS(&s.nats)
	if err != nil {
		return err
	}
	defer nc.Close()
	opening, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	l, err := cosmo.New(opening, nc, cosmo.Config{Bucket: s.bucket})
	if err != nil {
		return err
	}
	return do(l)
}

type limitAnswer struct {
	Slot     string `json:"slot"`
	Number   int    `json:"number"`
	Revision uint64 `json:"revision"`
}

func limitAcquireCommand(env settings.Environment) *cobra.Command {
	var jid string
	limit, hold := 1, 30*time.Second
	return newLimitSubcommand(env, "acquire <key> --jid ID [--limit N] [--duration 30s]", "Take a slot of a limit",
		"Take the first free slot of the limit <key>, and print its slot key, such as \"mail/0\". It does not wait: the exit\n"+
			"code is 75 when all slots are taken. The slot is free again when it is released, or after --duration.",
		func(flags *pflag.FlagSet) {
			flags.StringVar(&jid, "jid", "", "id of the job that takes the slot; it is stored in the bucket, and needed to release the slot")
			flags.Var(settings.Number(&limit, 1, cosmo.MaxLimit), "limit", "number of slots; must be the same for all workers that share the limit")
			flags.Var(settings.Duration(&hold, time.Second, cosmo.MaxDuration), "duration", "time after which the slot is free again without a release")
		},
		func() error {
			if jid == "" {
				return errors.New("--jid is missing")
			}
			return nil
		},
		func(ctx context.Context, s *limitSubcommand, l *cosmo.Limiter, key string) error {
			slot, err := l.Acquire(ctx, key, jid, limit, hold)
			if errors.Is(err, kvslots.ErrNoSlot) {
				return exitError{exitNoSlot, errors.New("all slots are taken")}
			}
			if err != nil {
				return err
			}
			return report(s.OutOrStdout(), s.json, limitAnswer{slot.Key, slot.Number, slot.Revision}, slot.Key)
		})
}

func limitReleaseCommand(env settings.Environment) *cobra.Command {
	var jid string
	var force bool
	return newLimitSubcommand(env, "release <slot> --jid ID", "Release a slot of a limit",
		"Release a slot, such as \"mail/0\", if the job --jid still holds it. If the slot is free, or another job holds it,\n"+
			"the command does nothing and prints \"not held\", which is not an error.",
		func(flags *pflag.FlagSet) {
			flags.StringVar(&jid, "jid", "", "the --jid with which the slot was acquired")
			flags.BoolVar(&force, "force", false, "release the slot whichever job holds it")
		},
		func() error {
			if (jid == "") == !force {
				return errors.New("either --jid or --force is needed")
			}
			return nil
		},
		func(ctx context.Context, s *limitSubcommand, l *cosmo.Limiter, slotKey string) error {
			ctx, cancel := context.WithTimeout(ctx, requestTimeout)
			defer cancel()
			released, err := releaseOf(ctx, l, slotKey, jid, force)
			if err != nil {
				return err
			}
			text := "not held"
			if released {
				text = "released"
			}
			return report(s.OutOrStdout(), s.json, map[string]bool{"released": released}, text)
		})
}

// releaseOf releases a slot if the job jid holds it, or, with force, any job.
func releaseOf(ctx context.Context, l *cosmo.Limiter, slotKey, jid string, force bool) (bool, error) {
	slot, holder, err := l.Holder(ctx, slotKey)
	if errors.Is(err, kvslots.ErrNotHeld) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot read the slot's holder: %w", err)
	}
	if holder != jid && !force {
		return false, nil
	}
	return l.Release(ctx, slot)
}
