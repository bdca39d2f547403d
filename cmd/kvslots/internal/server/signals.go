package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
	"time"
)

// signalPause is the time after a signal during which serve ignores further signals.
// timeout(1) sends two signals at once, to its child and to its process group, as does
// a supervisor that signals a group and its leader. Both are one request to stop.
const signalPause = time.Second

// stopSignals translates SIGTERM and SIGINT into contexts for serve: the first signal,
// or the end of ctx, ends stop; the second ends hurry; a third kills the process, which
// is its default. A signal within signalPause of the last one that had an effect is
// ignored. release releases all resources, and must be called.
func stopSignals(ctx context.Context, log *slog.Logger) (stop, hurry context.Context, release func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	stop, stopNow := context.WithCancel(ctx)
	hurry, hurryNow := context.WithCancel(context.WithoutCancel(ctx))

	stopHeeding := Background(func(ctx context.Context) {
		defer signal.Stop(signals) // the next signal kills the process
		heedSignals(signals, ctx.Done(), log, stopNow, func() {
			log.Warn("another signal: the drain is cut short")
			hurryNow()
		})
	})
	return stop, hurry, func() {
		stopHeeding()
		stopNow()
		hurryNow()
	}
}

// heedSignals calls one step for each signal that is not ignored. It returns at the end
// of signalPause after the last step, or when quit is closed.
func heedSignals(signals <-chan os.Signal, quit <-chan struct{}, log *slog.Logger, steps ...func()) {
	var pause <-chan time.Time // not nil while signals are ignored
	for pause != nil || len(steps) > 0 {
		select {
		case <-quit:
			return
		case <-pause:
			pause = nil
		case s := <-signals:
			if pause != nil {
				log.Warn("signal ignored: it came too soon after the last one", "signal", s.String(), "pause", signalPause.String())
				continue
			}
			pause = time.After(signalPause)
			steps[0]()
			steps = steps[1:]
		}
	}
}

// exitQuit is the exit code after SIGQUIT, as of every Go program.
const exitQuit = 2

// dumpOnQuit makes SIGQUIT write the functions and lines of all goroutines to w, and end
// the process. The dump of Go's runtime contains arguments of functions, too: bytes of
// the ids of pools and leases.
func dumpOnQuit(w io.Writer) (release func()) {
	quit := make(chan os.Signal, 1)
	signal.Notify(quit, syscall.SIGQUIT)
	return Background(func(ctx context.Context) {
		defer signal.Stop(quit)
		select {
		case <-quit:
			_, _ = fmt.Fprintln(w, "SIGQUIT: quit")
			_ = pprof.Lookup("goroutine").WriteTo(w, 1) // 1: without arguments
			os.Exit(exitQuit)
		case <-ctx.Done():
		}
	})
}
