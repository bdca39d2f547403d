package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/server"
	"github.com/kvslots/kvslots/cmd/kvslots/internal/underlease"
)

// untilSignal returns a context for a client command, which ends with ctx or at SIGINT
// or SIGTERM. A second signal kills the process, which is its default. release must be
// called.
func untilSignal(ctx context.Context) (_ context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	stop := server.Background(func(stopped context.Context) {
		defer signal.Stop(signals)
		select {
		case sig := <-signals:
			signal.Stop(signals) // before the command can end: the next signal kills the process
			cancel(underlease.SignalError{Signal: sig})
		case <-stopped.Done():
		}
	})
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// unlessInterrupted returns the error of a command with a context from untilSignal. After a
// signal the exit code of an error is that of a process that the signal has killed.
func unlessInterrupted(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	cause := context.Cause(ctx)
	if sig, ok := errors.AsType[underlease.SignalError](cause); ok {
		return exitError{sig.ExitCode(), sig}
	}
	return cause
}

// longRunning are the commands that go on when the reader of their output has gone.
var longRunning = []string{"serve", "run", "lock", "sem", "borrow", "register", "backup", "restore", "bench", "cosmo run", "cosmo acquire"}

// withoutBrokenPipe lets a write to standard output or standard error fail if its reader is gone. Without it, the
// process would be killed by SIGPIPE, with what it has taken. restore must be called.
func withoutBrokenPipe() (restore func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGPIPE)
	return func() { signal.Stop(signals) }
}
