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

type cosmoSubcommand struct {
	*cobra.Command
	nats settings.NATS
	cosmo.Config
	json bool
}

const cosmoHelp = "Limits are in a NATS bucket of their own, separate from the pools, and are shared with the Ruby workers of\n" +
	"Cosmo::Job::Limit. They need no gateway, only a NATS with JetStream."

const requestTimeout = 10 * time.Second

func cosmoCommand(env settings.Environment) *cobra.Command {
	command := &cobra.Command{
		Use:   "cosmo",
		Short: "Take and release slots of limits shared with Cosmo",
		Long:  cosmoHelp,
		Args:  cobra.NoArgs,
		RunE:  func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(cosmoAcquireCommand(env), cosmoRunCommand(env), cosmoReleaseCommand(env), cosmoListCommand(env))
	return command
}

// newCosmoSubcommand returns a command that calls check and do. ownFlags declares the flags
// that not all of these commands have.
func newCosmoSubcommand(env settings.Environment, use, short, long string, args cobra.PositionalArgs, ownFlags func(*pflag.FlagSet), check func() error,
	do func(s *cosmoSubcommand, args []string) error,
) *cobra.Command {
	s := &cosmoSubcommand{}
	s.Command = newCommand(env, &s.nats, use, short, long+"\n\n"+cosmoHelp, args, func(_ *cobra.Command, args []string) error {
		if err := check(); err != nil {
			return settings.Usagef("%w", err)
		}
		err := do(s, args)
		if wrong, ok := errors.AsType[*kvslots.RangeError](err); ok {
			return settings.Usagef("%w", wrong)
		}
		return err
	})
	flags := s.Flags()
	ownFlags(flags)
	flags.StringVar(&s.Bucket, "bucket", cosmo.DefaultBucket, "KV bucket of the limits; created if it does not exist")
	flags.Var(settings.Number(&s.Replicas, 1, 1, 5), "replicas", "number of replicas of the bucket, if it is created")
	addJSONFlag(flags, &s.json)
	s.nats.AddFlags(flags, nats.DefaultURL, "NATS to use (comma-separated URLs)")
	return s.Command
}

// with opens the bucket, and calls do. Both end at a signal.
func (s *cosmoSubcommand) with(do func(ctx context.Context, l *cosmo.Limiter) error) error {
	ctx, release := untilSignal(s.Context())
	defer release()
	nc, l, err := s.open(ctx)
	if err != nil {
		return unlessInterrupted(ctx, err)
	}
	defer nc.Close()
	return unlessInterrupted(ctx, do(ctx, l))
}

// open connects and opens the bucket. The caller must close the connection.
func (s *cosmoSubcommand) open(ctx context.Context) (*nats.Conn, *cosmo.Limiter, error) {
	nc, err := dialNATS(&s.nats)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	l, err := cosmo.New(ctx, nc, s.Config)
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return nc, l, nil
}

type slotAnswer struct {
	Slot     string `json:"slot"`
	Number   int    `json:"number"`
	Revision uint64 `json:"revision"`
}

func answerOf(slot cosmo.Slot) slotAnswer { return slotAnswer{slot.Key, slot.Number, slot.Revision} }

type cosmoUse struct {
	jid      string
	limit    int
	duration time.Duration
}

func (u *cosmoUse) addFlags(flags *pflag.FlagSet, jid string) {
	flags.StringVar(&u.jid, "jid", "", "id of the job that takes the slot; it is stored in the bucket"+jid)
	flags.Var(settings.Number(&u.limit, 1, 1, cosmo.MaxLimit), "limit", "number of slots; must be the same for all workers that share the limit")
	flags.Var(settings.Duration(&u.duration, 30*time.Second, time.Second, cosmo.MaxDuration), "duration", "time after which the slot is free again without a release")
}

var errAllTaken = exitError{exitNoSlot, errors.New("all slots are taken")}

func (u *cosmoUse) acquire(ctx context.Context, l *cosmo.Limiter, key string) (cosmo.Slot, error) {
	slot, err := l.Acquire(ctx, key, u.jid, u.limit, u.duration)
	if errors.Is(err, kvslots.ErrNoSlot) {
		err = errAllTaken
	}
	return slot, err
}

func cosmoAcquireCommand(env settings.Environment) *cobra.Command {
	var u cosmoUse
	return newCosmoSubcommand(env, "acquire <key> --jid ID [--limit N] [--duration 30s]", "Take a slot of a limit",
		"Take the first free slot of the limit <key>, and print its slot key, such as \"mail/0\". It does not wait: the exit\n"+
			"code is 75 when all slots are taken. The slot is free again when it is released, or after --duration.\n"+
			"To hold a slot while a command runs, use \"kvslots cosmo run\".",
		arguments("<key>"),
		func(flags *pflag.FlagSet) { u.addFlags(flags, ", and needed to release the slot") },
		func() error {
			if u.jid == "" {
				return errors.New("--jid is missing")
			}
			return nil
		},
		func(s *cosmoSubcommand, args []string) error {
			return s.with(func(ctx context.Context, l *cosmo.Limiter) error {
				slot, err := u.acquire(ctx, l, args[0])
				if err != nil {
					return err
				}
				if err = report(s.OutOrStdout(), s.json, answerOf(slot), slot.Key); err != nil { // the slot is known to no one
					return errors.Join(err, l.Release(ctx, slot))
				}
				return nil
			})
		})
}

// cosmoWhose are the flags that tell which acquisition to release.
type cosmoWhose struct {
	jid      string
	revision uint64
	force    bool
}

func cosmoReleaseCommand(env settings.Environment) *cobra.Command {
	var whose cosmoWhose
	return newCosmoSubcommand(env, "release <slot> --jid ID", "Release a slot of a limit",
		"Release a slot, such as \"mail/0\", if the job --jid still holds it, or the acquisition with --revision, which\n"+
			"\"acquire --json\" and \"list\" print. If both are given, both must match. If the slot is free, or another job holds\n"+
			"it, the command does nothing and prints \"not held\", which is not an error.",
		arguments("<slot>"),
		func(flags *pflag.FlagSet) {
			flags.StringVar(&whose.jid, "jid", "", "the --jid with which the slot was acquired")
			flags.Uint64Var(&whose.revision, "revision", 0, "the revision of the acquisition")
			flags.BoolVar(&whose.force, "force", false, "release the slot whichever job holds it")
		},
		func() error {
			if whose.jid == "" && whose.revision == 0 && !whose.force {
				return errors.New("either --jid, --revision or both are needed, or --force")
			}
			return nil
		},
		func(s *cosmoSubcommand, args []string) error {
			return s.with(func(ctx context.Context, l *cosmo.Limiter) error {
				ctx, cancel := context.WithTimeout(ctx, requestTimeout)
				defer cancel()
				released, err := whose.release(ctx, l, args[0])
				if err != nil {
					return err
				}
				text := "not held"
				if released {
					text = "released"
				}
				return report(s.OutOrStdout(), s.json, map[string]bool{"released": released}, text)
			})
		})
}

// release releases a slot if the acquisition that holds it is the one that is meant.
func (w *cosmoWhose) release(ctx context.Context, l *cosmo.Limiter, slotKey string) (bool, error) {
	held, err := l.Holder(ctx, slotKey)
	if errors.Is(err, kvslots.ErrNotHeld) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot read the slot's holder: %w", err)
	}
	if w.jid != "" && held.JobID != w.jid || w.revision != 0 && held.Revision != w.revision {
		return false, nil
	}
	return true, l.Release(ctx, held.Slot)
}

type heldAnswer struct {
	slotAnswer
	JobID string `json:"jid"`
	Age   int    `json:"age"` // in seconds, rounded down
}

func cosmoListCommand(env settings.Environment) *cobra.Command {
	return newCosmoSubcommand(env, "list [<key>]", "List the slots of limits that are held",
		"List the slots in the bucket that jobs hold, in the order of their acquisition, or only those of the limit <key>.\n"+
			"Each has a line with the job's id, the time since the acquisition, and the revision.",
		arguments("[<key>]"), func(*pflag.FlagSet) {}, func() error { return nil },
		func(s *cosmoSubcommand, args []string) error {
			return s.with(func(ctx context.Context, l *cosmo.Limiter) error {
				all, err := l.Held(ctx)
				if err != nil {
					return err
				}
				for _, held := range all {
					if len(args) > 0 && held.Key != fmt.Sprintf("%s/%d", args[0], held.Number) {
						continue
					}
					since := max(time.Since(held.Acquired), 0)
					if err := report(s.OutOrStdout(), s.json, heldAnswer{answerOf(held.Slot), held.JobID, int(since / time.Second)},
						fmt.Sprintf("%s: job %s, age %s, revision %d", held.Key, legible(held.JobID), age(since), held.Revision)); err != nil {
						return err
					}
				}
				return nil
			})
		})
}
