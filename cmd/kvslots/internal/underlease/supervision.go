package underlease

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/kvslots/kvslots/kvslots/clock"
)

// supervision is the state of a running command and its lease.
type supervision struct {
	*runner
	lease  Lease
	child  *child
	ending bool          // SIGTERM was sent because of the lease
	killed bool          // SIGKILL was sent
	killAt time.Duration // when KillAfter is over, once ending

	renewing  bool
	renewAt   time.Duration // when to renew next, unless renewing
	renewals  chan renewal
	failure   error // of the last renewal; nil if it succeeded
	noRenewal bool  // the gateway cannot renew, and a line was printed about it
}

type renewal struct {
	lease Lease
	err   error
}

// supervise waits for the command's end and returns the exit code. Meanwhile it passes
// signals to the command, renews the lease, and ends the command before the lease ends.
func (r *runner) supervise(ctx context.Context, lease Lease, child *child) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &supervision{
		runner: r, lease: lease, child: child,
		renewAt: lease.renewAt(), renewals: make(chan renewal, 1),
	}
	lost := make(chan struct{}, 1)
	unfollow := r.Slot.Follow(func() { lost <- struct{}{} })
	stopped := ctx.Done()
	for !child.ended() {
		s.act(ctx, clock.Now())
		select {
		case <-child.done:
		case sig := <-r.signals.received:
			s.pass(ctx, sig)
		case got := <-s.renewals:
			s.renewed(got)
		case <-lost:
			if !s.ending {
				s.end(clock.Now(), leaseLost)
			}
		case <-stopped:
			stopped = nil
			child.terminate()
		case <-time.After(s.pause(clock.Now())):
		}
	}
	s.endGroup()
	unfollow() // the lease is about to be returned
	cancel()   // a renewal in progress must not follow the return
	if s.renewing {
		<-s.renewals
	}
	if s.ending {
		r.lost = true
		return ExitLost
	}
	return child.code()
}

const leaseLost = "the lease is lost"

// act kills the command, ends it or starts a renewal, if the time for that has come.
func (s *supervision) act(ctx context.Context, now time.Duration) {
	switch {
	case s.killed:
	case s.ending && now >= s.killDue():
		s.killed = true
		s.child.kill()
	case s.ending:
	case now >= s.lease.termAt(s.KillAfter):
		s.end(now, "the lease is about to end"+s.whyNotRenewed())
		s.act(ctx, now) // after a suspension SIGKILL may be due as well
	case now >= s.renewAt && !s.renewing && !s.Fixed:
		s.renew(ctx)
	}
}

// end sends SIGTERM to the command. act kills it later.
func (s *supervision) end(now time.Duration, why string) {
	s.ending, s.killAt = true, now+s.KillAfter
	s.Printf("%s; ending the command", why)
	s.child.terminate()
}

// killDue returns the time at which to kill a command that is ending.
func (s *supervision) killDue() time.Duration { return min(s.killAt, s.lease.killAt()) }

// whyNotRenewed returns text for the user about why the lease was not renewed, or "" if
// leases cannot be renewed.
func (s *supervision) whyNotRenewed() string {
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

// maxPause bounds the delay of act after the machine was suspended, since timers stop
// meanwhile. Every Margin is longer.
const maxPause = 200 * time.Millisecond

// pause returns the time until act has something to do, at most maxPause.
func (s *supervision) pause(now time.Duration) time.Duration {
	next := s.lease.termAt(s.KillAfter)
	switch {
	case s.killed:
		return time.Hour
	case s.ending:
		next = s.killDue()
	case !s.renewing && !s.Fixed:
		next = min(next, s.renewAt)
	}
	return min(max(next-now, 0), maxPause)
}

// endGroup waits for the processes that the command has left behind in its group, if the
// lease is ending, and kills them when the command would have been killed.
func (s *supervision) endGroup() {
	for s.ending && s.child.leftBehind() {
		if clock.Now() >= s.killDue() {
			s.child.kill()
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// pass passes a signal to the command. It calls act first: the lease may have ended while
// this process was stopped.
func (s *supervision) pass(ctx context.Context, sig os.Signal) {
	s.act(ctx, clock.Now())
	s.signals.repeated(sig) // records the first, so that a later one ends the return of the lease
	s.child.pass(sig)
}

// renew sends one request in the background. Its timeout is much shorter than the lease:
// the next request may reach a gateway that answers.
func (s *supervision) renew(ctx context.Context) {
	s.renewing = true
	timeout := min(s.lease.termAt(s.KillAfter)-clock.Now(), max(s.lease.TTL/6, time.Second))
	go func() {
		ctx, cancel := context.WithTimeout(ctx, max(timeout, 0))
		defer cancel()
		lease, err := s.Slot.Renew(ctx)
		s.renewals <- renewal{lease, err}
	}()
}

func (s *supervision) renewed(got renewal) {
	s.renewing, s.failure = false, got.err
	switch {
	case s.ending: // too late: the command has got SIGTERM
	case got.err == nil:
		s.lease, s.renewAt = got.lease, got.lease.renewAt()
	case errors.Is(got.err, ErrLost):
		s.end(clock.Now(), leaseLost)
	default:
		s.renewAt = clock.Now() + s.pauseAfter(got.err)
	}
}

// pauseAfter returns the pause after a renewal that failed. Renewals go on, less often,
// after a server that cannot renew: the next request may reach another one.
func (s *supervision) pauseAfter(err error) time.Duration {
	if !errors.Is(err, errors.ErrUnsupported) {
		left := max(s.lease.termAt(s.KillAfter)-clock.Now(), 0)
		return max(retryAfter(s.lease.TTL), min(s.Slot.RetryAfter(err), left/2))
	}
	if !s.noRenewal {
		s.noRenewal = true
		s.Printf("the gateway cannot renew leases; the command has to end before its lease does")
	}
	return max(s.lease.TTL/20, time.Second)
}
