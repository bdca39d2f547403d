package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/cosmo"
)

// limiting is what the two limit commands have in common.
type limiting struct {
	nats   natsConnection
	bucket string
	json   bool
}

const limitHelp = "Limits live in a NATS bucket of their own, beside the pools, and are shared with the Ruby workers of\n" +
	"Cosmo::Job::Limit. No gateway is needed, only a NATS with JetStream."

func limitCommand(env lookupEnv) *cobra.Command {
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

// limitCommandOf makes one of the two.
func limitCommandOf(env lookupEnv, use, short, long string, check func() error,
	do func(ctx context.Context, l *cosmo.Limiter, command *cobra.Command, args []string) error,
) (*cobra.Command, *limiting) {
	s := &limiting{}
	command := &cobra.Command{
		Use: use, Short: short, Long: long + "\n\n" + limitHelp,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := applyEnvironment(command.Flags(), env); err != nil {
				return err
			}
			if err := errors.Join(s.nats.validate(), check()); err != nil {
				return usagef("%w", err)
			}
			ctx, release := untilSignal(command.Context())
			defer release()
			err := s.with(ctx, func(l *cosmo.Limiter) error { return do(ctx, l, command, args) })
			if wrong, ok := errors.AsType[*kvslots.RangeError](err); ok {
				return usagef("%w", wrong)
			}
			if err != nil && ctx.Err() != nil {
				return interrupted(ctx)
			}
			return err
		},
	}
	command.Flags().SortFlags = false
	return command, s
}

func (s *limiting) addFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&s.bucket, "bucket", cosmo.DefaultBucket, "KV bucket of the limits; created if it is not there")
	flags.BoolVar(&s.json, "json", false, "print a line of JSON")
	s.nats.addFlags(flags, nats.DefaultURL, "NATS to use (comma-separated URLs)")
}

func (s *limiting) with(ctx context.Context, do func(l *cosmo.Limiter) error) error {
	nc, err := s.nats.dial()
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

// limitAnswer is a slot that was taken.
type limitAnswer struct {
	Slot     string `json:"slot"`
	Number   int    `json:"number"`
	Revision uint64 `json:"revision"`
}

func limitAcquireCommand(env lookupEnv) *cobra.Command {
	var jid string
	var s *limiting
	limit, hold := 1, 30*time.Second
	command, s := limitCommandOf(env, "acquire <key> --jid ID [--limit N] [--duration 30s]", "Take a slot of a limit",
		"Take the first free slot of the limit <key>, and print its slot key, such as \"mail/0\". It does not wait: the exit\n"+
			"code is 75 when all slots are taken. The slot is free again when it is released, or after --duration.",
		func() error {
			if jid == "" {
				return errors.New("--jid is missing")
			}
			return nil
		},
		func(ctx context.Context, l *cosmo.Limiter, command *cobra.Command, args []string) error {
			slot, err := l.Acquire(ctx, args[0], jid, limit, hold)
			if errors.Is(err, kvslots.ErrNoSlot) {
				return exitError{exitNoSlot, errors.New("all slots are taken")}
			}
			if err != nil {
				return err
			}
			return report(command.OutOrStdout(), s.json, limitAnswer{slot.Key, slot.Number, slot.Revision}, slot.Key)
		})
	flags := command.Flags()
	flags.StringVar(&jid, "jid", "", "who takes it: a job's id, which stands in the bucket for people to read, and releases the slot")
	flags.Var(number(&limit, 1, cosmo.MaxLimit), "limit", "number of slots; all who share a limit must agree")
	flags.Var(duration(&hold, time.Second, cosmo.MaxDuration), "duration", "when the slot is free again by itself")
	s.addFlags(command)
	return command
}

func limitReleaseCommand(env lookupEnv) *cobra.Command {
	var jid string
	var force bool
	var s *limiting
	command, s := limitCommandOf(env, "release <slot> --jid ID", "Release a slot of a limit",
		"Release a slot, such as \"mail/0\", if the job that took it has it still. A slot that is not held, or by another\n"+
			"job, is left alone and reported as \"not held\", which is no error.",
		func() error {
			if (jid == "") == !force {
				return errors.New("either --jid or --force is needed")
			}
			return nil
		},
		func(ctx context.Context, l *cosmo.Limiter, command *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(ctx, requestTimeout)
			defer cancel()
			released, err := releaseOf(ctx, l, args[0], jid, force)
			if err != nil {
				return err
			}
			text := "not held"
			if released {
				text = "released"
			}
			return report(command.OutOrStdout(), s.json, map[string]bool{"released": released}, text)
		})
	command.Flags().StringVar(&jid, "jid", "", "the --jid that it was taken with")
	command.Flags().BoolVar(&force, "force", false, "whoever has it")
	s.addFlags(command)
	return command
}

// releaseOf releases a slot that a job holds, or anybody.
func releaseOf(ctx context.Context, l *cosmo.Limiter, slotKey, jid string, anybody bool) (bool, error) {
	slot, holder, err := l.Holder(ctx, slotKey)
	if errors.Is(err, kvslots.ErrNotHeld) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot tell who holds the slot: %w", err)
	}
	if holder != jid && !anybody {
		return false, nil
	}
	return l.Release(ctx, slot)
}
