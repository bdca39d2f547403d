package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// stopSignals turns SIGTERM and SIGINT into contexts: the first signal, or the
// end of ctx, ends stop; the second ends hurry; a third kills the process, as
// it would have without us. release waits until nothing is left of it.
func stopSignals(ctx context.Context) (stop, hurry context.Context, release func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	stop, stopNow := context.WithCancel(ctx)
	hurry, hurryNow := context.WithCancel(context.WithoutCancel(ctx))

	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for _, end := range []context.CancelFunc{stopNow, hurryNow} {
			select {
			case <-signals:
				end()
			case <-quit:
				return
			}
		}
		signal.Stop(signals)
	}()
	return stop, hurry, func() {
		signal.Stop(signals)
		close(quit)
		<-done
		stopNow()
		hurryNow()
	}
}
