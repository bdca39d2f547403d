package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

// signalPause is how long after a signal further ones are ignored. timeout(1)
// sends two at once, one to its child and one to its process group, and so does
// a supervisor that signals a group and its leader; that is one request to stop.
const signalPause = time.Second

// stopSignals turns SIGTERM and SIGINT into contexts: the first signal, or the
// end of ctx, ends stop; the second ends hurry; a third kills the process, as
// it would by default. A signal within signalPause of the one before that took
// effect is ignored. release blocks until the goroutine behind it has ended.
func stopSignals(ctx context.Context, log zerolog.Logger) (stop, hurry context.Context, release func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	stop, stopNow := context.WithCancel(ctx)
	hurry, hurryNow := context.WithCancel(context.WithoutCancel(ctx))

	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		heedSignals(signals, quit, log, stopNow, func() {
			log.Warn().Msg("another signal: the drain is cut short")
			hurryNow()
		})
		signal.Stop(signals) // from here on a signal kills
	}()
	return stop, hurry, func() {
		signal.Stop(signals)
		close(quit)
		<-done
		stopNow()
		hurryNow()
	}
}

// heedSignals calls one step for each signal that takes effect. It returns when
// signalPause after the last step is over, or when quit is closed.
func heedSignals(signals <-chan os.Signal, quit <-chan struct{}, log zerolog.Logger, steps ...func()) {
	var pause <-chan time.Time // not nil while signals are ignored
	for {
		if pause == nil && len(steps) == 0 {
			return
		}
		select {
		case <-quit:
			return
		case <-pause:
			pause = nil
		case s := <-signals:
			if pause != nil {
				log.Warn().Stringer("signal", s).Stringer("pause", signalPause).Msg("signal ignored: it came too soon after the one before")
				continue
			}
			pause = time.After(signalPause)
			steps[0]()
			steps = steps[1:]
		}
	}
}
