package underlease

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/kvslots/kvslots/kvslots/clock"
)

// repeatAfter is the time after the first signal from which another one counts as the
// second. timeout(1) sends a signal to its child and to its process group at once, which
// is one request to end.
const repeatAfter = time.Second

// SignalError is the error of a wait that a signal has ended.
type SignalError struct{ os.Signal }

func (e SignalError) Error() string { return e.String() }

// ExitCode returns the exit code that shells report for a process killed by the signal.
func (e SignalError) ExitCode() int {
	if number, ok := e.Signal.(syscall.Signal); ok {
		return 128 + int(number)
	}
	return 1
}

type signals struct {
	received chan os.Signal
	orphans  chan os.Signal // receives when a child has ended; nil if this process adopts none
	first    time.Duration  // time, by package clock, of the first signal that asks to end; 0 before
}

func catchSignals(shared bool) *signals {
	s := &signals{received: make(chan os.Signal, 16)}
	ignoreIgnored()
	if caught := forwarded(shared); len(caught) > 0 { // Notify without signals would catch all
		signal.Notify(s.received, caught...)
		recordOrigins(caught)
	}
	return s
}

func (s *signals) stop() {
	signal.Stop(s.received)
	if s.orphans != nil {
		signal.Stop(s.orphans)
	}
}

// during calls do while no command is running. The first signal whose default is to end
// the process ends stop. A second signal that asks to end ends hurry.
func (s *signals) during(ctx context.Context, do func(stop, hurry context.Context)) {
	stop, endStop := context.WithCancelCause(ctx)
	defer endStop(nil)
	hurry, endHurry := context.WithCancelCause(context.WithoutCancel(ctx))
	defer endHurry(nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		do(stop, hurry)
	}()
	for {
		select {
		case <-done:
			return
		case <-s.orphans:
			reapOrphans()
		case sig := <-s.received:
			if !deadly(sig) {
				suspend(sig)
				continue
			}
			endStop(SignalError{sig})
			if s.repeated(sig) {
				endHurry(SignalError{sig})
			}
		}
	}
}

// repeated reports whether a signal asks to end for the second time in this Run.
func (s *signals) repeated(sig os.Signal) bool {
	now := clock.Now()
	switch {
	case !asksToEnd(sig):
		return false
	case s.first == 0:
		s.first = now
		return false
	}
	return now-s.first >= repeatAfter
}
