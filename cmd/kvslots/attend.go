package main

import (
	"context"
	"os"
	"time"
)

// oneSignal is for how long further signals count as the same one: timeout(1)
// sends it to us and then to our process group.
const oneSignal = time.Second

// attend runs do while there is no command to pass signals on to. The first
// signal that would have ended us ends stop. Another one ends hurry: a second
// after the first one of the whole run, or later.
func (r *runner) attend(ctx context.Context, do func(stop, hurry context.Context)) {
	stop, cancelStop := context.WithCancelCause(ctx)
	defer cancelStop(nil)
	hurry, cancelHurry := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancelHurry(nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		do(stop, hurry)
	}()
	for {
		select {
		case <-done:
			return
		case sig := <-r.signals:
			if !deadly(sig) {
				suspend(sig)
				continue
			}
			cancelStop(signalError{sig})
			if r.repeated(sig) {
				cancelHurry(signalError{sig})
			}
		}
	}
}

// repeated notes a signal, and reports whether it is a second one.
func (r *runner) repeated(sig os.Signal) bool {
	now := bootTime()
	switch {
	case !ending(sig):
		return false
	case r.signalled == 0:
		r.signalled = now
		return false
	}
	return now-r.signalled >= oneSignal
}
