package underlease

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/kvslots/kvslots/kvslots/clock"
)

type supervision struct {
	*runner
	lease     Lease
	child     *child
	ending    bool          // SIGTERM was sent because of the lease
	killed    bool          // SIGKILL was sent
	killAt    time.Duration // when to kill the command, by package clock; while it is not ending, when its lease ends
	noRenewal bool          // a line was printed: the gateway cannot renew
}

// supervise waits for the command's end and returns the exit code. Meanwhile it passes
// signals to the command, and ends the command before the lease ends.
func (r *runner) supervise(ctx context.Context, lease Lease, child *child) int {
	s := &supervision{runner: r, lease: lease, child: child, killAt: clock.Now() + left(lease)}
	stopped, lost := ctx.Done(), lease.Done()
	for !child.ended() {
		s.act(clock.Now())
		select {
		case <-child.done:
		case sig := <-r.signals.received:
			s.pass(sig)
		case <-lost:
			lost = nil // act sees it
		case <-stopped:
			stopped = nil
			child.terminate()
		case <-time.After(s.pause(clock.Now())):
		}
	}
	s.endGroup()
	if s.ending {
		r.lost = true
		return ExitLost
	}
	return child.code()
}

func (s *supervision) act(now time.Duration) {
	if !s.ending && !isClosed(s.lease.Done()) {
		s.killAt = now + left(s.lease)
	}
	switch {
	case s.killed:
	case s.ending && now >= s.killAt:
		s.killed = true
		s.child.kill()
	case s.ending:
	case now >= s.killAt-s.KillAfter:
		s.end(now, "the lease is about to end"+s.whyNotRenewed())
		s.act(now) // after a suspension SIGKILL may be due as well
	case isClosed(s.lease.Done()):
		s.end(now, fmt.Sprintf("the lease is lost: %v", s.lease.Err()))
	case !s.noRenewal && errors.Is(s.lease.Trouble(), errors.ErrUnsupported):
		s.noRenewal = true
		s.Printf("the gateway cannot renew leases; the command has to end before its lease does")
	}
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// end sends SIGTERM to the command. act kills it later, before the lease would have ended.
func (s *supervision) end(now time.Duration, why string) {
	s.ending, s.killAt = true, min(now+s.KillAfter, s.killAt)
	s.Printf("%s; ending the command", why)
	s.child.terminate()
}

// whyNotRenewed returns text for the user about why the lease was not renewed, or "" if that is not known.
func (s *supervision) whyNotRenewed() string {
	if trouble := s.lease.Trouble(); trouble != nil && !s.noRenewal {
		return "; it was not renewed: " + trouble.Error()
	}
	return ""
}

// maxPause bounds the delay of act after the machine was suspended, since timers stop
// meanwhile. Every Margin is longer.
const maxPause = 200 * time.Millisecond

// pause returns the time until act has something to do, at most maxPause.
func (s *supervision) pause(now time.Duration) time.Duration {
	next := s.killAt
	switch {
	case s.killed:
		return time.Hour
	case !s.ending:
		next -= s.KillAfter
	}
	return min(max(next-now, 0), maxPause)
}

// endGroup waits for the processes that the command has left behind in its group, if the
// lease is ending, and kills them when the command would have been killed.
func (s *supervision) endGroup() {
	for s.ending && s.child.leftBehind() {
		if clock.Now() >= s.killAt {
			s.child.kill()
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// pass passes a signal to the command. It calls act first: the lease may have ended while
// this process was stopped.
func (s *supervision) pass(sig os.Signal) {
	s.act(clock.Now())
	s.signals.repeated(sig) // records the first, so that a later one ends the return of the lease
	s.child.pass(sig)
}
