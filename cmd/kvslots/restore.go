package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots/natsstore"
)

const restoreHelp = `Replace the bucket with what "kvslots backup" has written to FILE; - is standard input. FILE is checked before anything is
changed. A bucket with pools, leases or sessions is only replaced with --replace.

Stop all gateways first: the command refuses while one runs. Leases keep their UUIDs, tokens and fences, and end when they would
have ended without the restore; leases whose time is over are not restored. All later leases have higher fences. Waiting
borrowers have to ask again. If the restore is interrupted, repeat it: no gateway serves a bucket that is half restored. When
the command is done, an embedded server has flushed what was restored.

The command uses the NATS at --nats-url, or a data directory: see "kvslots backup --help".`

type restoredAnswer natsstore.Restored

func (r restoredAnswer) String() string {
	return fmt.Sprintf("pools %d, leases %d, sessions %d; expired leases %d", r.Pools, r.Leases, r.Sessions, r.Expired)
}

func restoreCommand(env settings.Environment) *cobra.Command {
	s, options, asJSON := &storage{}, natsstore.RestoreOptions{}, false
	command := storageCommand(env, s, "restore FILE", "Replace the bucket with what backup has written", restoreHelp,
		func(ctx context.Context, command *cobra.Command, file string) error {
			content, err := readFile(command.InOrStdin(), file)
			if err != nil {
				return err
			}
			if s.Embedded() {
				options.Replicas, options.Unused = 1, true
			}
			var restored natsstore.Restored
			err = s.with(ctx, false, func(nc *nats.Conn, flush func(context.Context) error) (err error) {
				options.Flush = flush
				restored, err = natsstore.Restore(ctx, nc, bytes.NewReader(content), options)
				return err
			})
			if errors.Is(err, natsstore.ErrNotEmpty) {
				return fmt.Errorf("%w; --replace replaces them", err)
			}
			if err != nil {
				return err
			}
			answer := restoredAnswer(restored)
			return report(command.OutOrStdout(), asJSON, answer, answer.String())
		})
	flags := command.Flags()
	flags.BoolVar(&options.Replace, "replace", false, "replace a bucket that is not empty")
	flags.Var(settings.Number(&options.Replicas, 0, 0, 5), "replicas", "replicas of the new bucket; 0 means those of the bucket that is replaced, or else of the backup")
	addJSONFlag(flags, &asJSON)
	s.AddFlags(flags)
	return command
}

func readFile(stdin io.Reader, path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(path)
}
