package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// untilSignal is ctx until SIGINT or SIGTERM comes; a second one kills, as it
// would have without us. release is to be called.
func untilSignal(ctx context.Context) (_ context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case sig := <-signals:
			signal.Stop(signals)
			cancel(signalError{sig})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
		<-done
	}
}

// signalError is why a context ended.
type signalError struct{ os.Signal }

func (e signalError) Error() string { return e.String() }

// interrupted is the end of a command whose context ended: what a shell gives a
// process that died of the signal.
func interrupted(ctx context.Context) error {
	cause, ok := errors.AsType[signalError](context.Cause(ctx))
	if !ok {
		return context.Cause(ctx)
	}
	return exitError{signalled(cause.Signal), cause}
}

// signalled is the exit code of a process that died of a signal.
func signalled(sig os.Signal) int {
	if number, ok := sig.(syscall.Signal); ok {
		return 128 + int(number)
	}
	return exitFailed
}
