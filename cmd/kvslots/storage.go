package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/natsembed"
)

// storage is the bucket that commands use without a gateway.
type storage struct{ settings.Storage }

// with calls do with a connection to the NATS that has the bucket: the one at --nats-url,
// if shared, that of the gateway that runs on --data-dir, or, if no process uses the directory, an
// embedded server for the time of the call. The connection does not reconnect: a restore
// that has lost it may have been replaced by another one. flush makes durable what an
// embedded server of this process has acknowledged; it is nil for others.
func (s *storage) with(ctx context.Context, shared bool, do func(nc *nats.Conn, flush func(context.Context) error) error) (err error) {
	if !s.Embedded() {
		nc, err := dialNATS(&s.NATS, settings.OwnInboxes(), nats.NoReconnect())
		if err != nil {
			return err
		}
		defer nc.Close()
		return do(nc, nil)
	}
	notRunning := errGatewayUses
	if shared {
		var nc *nats.Conn
		if nc, notRunning = natsembed.Dial(s.DataDir, nats.Timeout(settings.DialTimeout)); notRunning == nil {
			defer nc.Close()
			return do(nc, nil)
		}
		notRunning = fmt.Errorf("and no running gateway can be reached: %w", notRunning)
	}
	server, err := natsembed.Start(ctx, natsembed.Config{DataDir: s.DataDir, Sync: natsembed.SyncAlways})
	if err != nil {
		return fmt.Errorf("%w; %w", err, notRunning)
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	nc, err := server.Connect()
	if err != nil {
		return err
	}
	defer nc.Close()
	return do(nc, func(context.Context) error { return server.Flush() })
}

var errGatewayUses = errors.New("stop the gateway that uses it, and repeat")

// storageTimeout bounds a command that uses the bucket without a gateway: a NATS that
// does not answer must not block it for ever.
const storageTimeout = 10 * time.Minute

// storageCommand makes a command that uses the bucket without a gateway. The caller adds
// the flags.
func storageCommand(env settings.Environment, s *storage, use, short, long string,
	do func(ctx context.Context, command *cobra.Command, file string) error,
) *cobra.Command {
	return newCommand(env, s, use, short, long, arguments("FILE"), func(command *cobra.Command, args []string) error {
		ctx, release := untilSignal(command.Context())
		defer release()
		bounded, cancel := context.WithTimeout(ctx, storageTimeout)
		defer cancel()
		return unlessInterrupted(ctx, do(bounded, command, args[0]))
	})
}
