package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// supervision is what is known about a running command and its lease.
type supervision struct {
	*runner
	from   lender
	lease  held
	child  *child
	ending bool          // SIGTERM was sent for the lease's sake
	killed bool          // SIGKILL, too
	kill   time.Duration // when SIGKILL is due

	failure   error // of the last renewal, if it failed
	noRenewal bool  // the gateway cannot renew, which was printed

	renewing bool
	renewal  time.Duration // when to try next
	renewals chan renewal
}

type renewal struct {
	held
	err error
}

// supervise waits for the command's end, passes signals on to it, renews its
// lease, and ends it before the lease does. It returns the lease as it is then,
// and the command's exit code as an error.
func (r *runner) supervise(ctx context.Context, from lender, lease held, child *child) (held, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &supervision{
		runner: r, from: from, lease: lease, child: child,
		renewal: lease.renewal(), renewals: make(chan renewal, 1),
	}
	stopped := ctx.Done()
	for {
		if child.ended() {
			s.endRest()
			s.joinRenewal(cancel)
			return s.lease, s.exit()
		}
		s.act(ctx, bootTime())
		wake := time.NewTimer(s.pause(bootTime()))
		select {
		case <-child.done:
		case sig := <-r.signals:
			s.pass(ctx, sig)
		case got := <-s.renewals:
			s.renewed(got)
		case <-stopped:
			stopped = nil
			child.terminate()
		case <-wake.C:
		}
		wake.Stop()
	}
}

// act does what is due.
func (s *supervision) act(ctx context.Context, now time.Duration) {
	switch {
	case s.killed:
	case s.ending && now >= min(s.kill, s.lease.kill()):
		s.killed = true
		s.child.kill()
	case s.ending:
	case now >= s.lease.term(s.killAfter):
		s.end(now, "the lease is about to end"+s.unrenewed())
		s.act(ctx, now) // after a suspension all is due at once
	case now >= s.renewal && !s.renewing:
		s.renew(ctx)
	}
}

// end begins to end the command.
func (s *supervision) end(now time.Duration, why string) {
	s.ending, s.kill = true, now+s.killAfter
	fmt.Fprintf(s.command.ErrOrStderr(), "kvslots: %s; ending the command\n", why)
	s.child.terminate()
}

// unrenewed says why the lease was not renewed, if that was tried. That the gateway
// cannot was printed before.
func (s *supervision) unrenewed() string {
	switch {
	case s.noRenewal:
		return ""
	case s.failure != nil:
		return "; it was not renewed: " + s.failure.Error()
	case s.renewing:
		return "; it was not renewed: no answer yet"
	}
	return ""
}

// maxPause is how late a deadline may be noticed that passed while the machine
// was suspended: timers stand still then. Every margin is longer.
const maxPause = 200 * time.Millisecond

// pause is how long nothing is due.
func (s *supervision) pause(now time.Duration) time.Duration {
	next := s.lease.term(s.killAfter)
	switch {
	case s.killed:
		return time.Hour
	case s.ending:
		next = min(s.kill, s.lease.kill())
	case !s.renewing:
		next = min(next, s.renewal)
	}
	return min(max(next-now, 0), maxPause)
}

// endRest ends what the command has left running, if the lease is the reason: in
// the same time that the command had.
func (s *supervision) endRest() {
	for s.ending && s.child.leftBehind() {
		if bootTime() >= min(s.kill, s.lease.kill()) {
			s.child.kill()
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// pass hands a signal on. What is due comes first: a lease may have ended while
// we were stopped.
func (s *supervision) pass(ctx context.Context, sig os.Signal) {
	s.act(ctx, bootTime())
	s.repeated(sig) // the first of two, if the next comes while the slot is returned
	s.child.pass(sig)
}

// renew renews in the background.
func (s *supervision) renew(ctx context.Context) {
	s.renewing = true
	// Not all of the time that is left: the next try may meet a gateway that
	// answers.
	patience := min(s.lease.term(s.killAfter)-bootTime(), max(s.lease.lease.ttl()/6, time.Second))
	go func(lease held) {
		ctx, cancel := context.WithTimeout(ctx, max(patience, 0))
		defer cancel()
		lease, err := s.runner.renewed(ctx, s.from, lease)
		s.renewals <- renewal{lease, err}
	}(s.lease)
}

func (s *supervision) renewed(got renewal) {
	s.renewing, s.failure = false, got.err
	s.lease.latest = max(s.lease.latest, got.latest)
	switch {
	case s.ending: // too late: the command was told
	case got.err == nil:
		s.lease, s.renewal = got.held, got.held.renewal()
	case lost(got.err):
		s.end(bootTime(), "the lease is lost")
	default:
		s.renewal = bootTime() + s.pauseAfter(got.err)
	}
}

// pauseAfter is how long to wait after a renewal that failed, before the next
// try. A gateway that cannot renew is asked a few times more: in the middle of
// an upgrade the next request may reach a newer one.
func (s *supervision) pauseAfter(err error) time.Duration {
	pause := s.lease.lease.ttl() / 20
	if !errors.Is(err, errors.ErrUnsupported) {
		left := max(s.lease.term(s.killAfter)-bootTime(), 0)
		return max(min(pause, time.Second), min(retryAfter(err), left/2))
	}
	if !s.noRenewal {
		s.noRenewal = true
		fmt.Fprintln(s.command.ErrOrStderr(), "kvslots: the gateway cannot renew leases; the command has to end before its lease does")
	}
	return max(pause, time.Second)
}

// joinRenewal leaves no renewal behind: it could come after the return.
func (s *supervision) joinRenewal(cancel context.CancelFunc) {
	cancel()
	if s.renewing {
		got := <-s.renewals
		s.lease.latest = max(s.lease.latest, got.latest)
	}
}

// exit is how the command ended, or that we have ended it.
func (s *supervision) exit() error {
	if s.ending {
		return exitError{exitLost, nil}
	}
	if code := s.child.code(); code != exitDone {
		return exitError{code, nil}
	}
	return nil
}
