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
	endedAt   time.Duration // when the command has ended; 0 before
	noRenewal bool          // a line was printed: the gateway cannot renew
	toldLeft  bool          // a line was printed: the command has left processes behind
	toldNo    bool          // a line was printed: the command may not be signalled
}

// supervise waits until the command's process group is empty, or with Close for the command's end, and returns the
// exit code. Meanwhile it passes signals to the group, and ends it before the lease ends.
func (r *runner) supervise(ctx context.Context, lease Lease, child *child) int {
	s := &supervision{runner: r, lease: lease, child: child, killAt: clock.Now() + left(lease)}
	ended, stopped, lost := child.done, ctx.Done(), lease.Done()
	for s.goesOn() {
		s.act(clock.Now())
		select {
		case <-ended:
			ended, s.endedAt = nil, clock.Now()
		case sig := <-r.signals.received:
			s.pass(sig)
		case <-r.signals.orphans:
		case <-lost:
			lost = nil // act sees it
		case <-stopped:
			stopped = nil
			s.refused(child.terminate())
		case <-time.After(s.pause(clock.Now())):
		}
	}
	if s.ending {
		r.lost = true
		return ExitLost
	}
	return child.code()
}

// goesOn reports whether the command runs, or something that it has left behind and that the lease is kept for. What
// is left while the lease is ending has until killAt.
func (s *supervision) goesOn() bool {
	if s.Alone {
		s.child.reap()
	}
	if !s.child.ended() {
		if s.child.isStopped() {
			s.Printf("the command is stopped, and the lease is still renewed; kill -CONT %d continues the command", s.child.command.Process.Pid)
		}
		return true
	}
	return (s.ending || !s.Close) && !s.killed && s.child.leftBehind()
}

func (s *supervision) act(now time.Duration) {
	if !s.ending && !isClosed(s.lease.Done()) {
		s.killAt = now + left(s.lease)
	}
	switch {
	case s.killed:
	case s.ending && now >= s.killAt:
		s.killed = true
		s.refused(s.child.kill())
	case s.ending:
	case now >= s.killAt-s.KillAfter:
		s.end(now, "the lease is about to end"+s.whyNotRenewed())
		s.act(now) // after a suspension SIGKILL may be due as well
	case isClosed(s.lease.Done()):
		s.end(now, fmt.Sprintf("the lease is lost: %v", s.lease.Err()))
	case !s.noRenewal && errors.Is(s.lease.Trouble(), errors.ErrUnsupported):
		s.noRenewal = true
		s.Printf("the gateway cannot renew leases; the command has to end before its lease does")
	case !s.toldLeft && s.endedAt > 0 && now >= s.endedAt+tellLeftAfter:
		s.toldLeft = true
		s.Printf("the command has ended, and has left processes in its group; the lease is kept until they end (not with --close)")
	}
}

// tellLeftAfter is how long the processes that a command leaves behind may take to end without a line about them.
const tellLeftAfter = time.Second

// refused prints that the command's group may not be signalled, if it is so.
func (s *supervision) refused(err error) {
	if err == nil || errors.Is(err, os.ErrProcessDone) || s.toldNo {
		return
	}
	s.toldNo = true
	text := "the command cannot be signalled: %v; it runs as another user, as with sudo, which belongs before kvslots"
	if s.ending {
		text = "the command could not be ended, and the next holder may run beside it: %v; it runs as another user, as with sudo, which belongs before kvslots"
	}
	s.Printf(text, err)
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
	s.toldNo = false // it is worse now
	s.refused(s.child.terminate())
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
	next, longest := s.killAt, maxPause
	if !s.ending {
		next -= s.KillAfter
	}
	switch {
	case s.killed && s.endedAt == 0:
		return time.Hour
	case s.endedAt > 0 && now < s.endedAt+tellLeftAfter:
		longest = maxPause / 10 // most of what is left behind ends soon
	}
	return min(max(next-now, 0), longest)
}

// pass passes a signal to the command. It calls act first: the lease may have ended while
// this process was stopped.
func (s *supervision) pass(sig os.Signal) {
	s.act(clock.Now())
	s.signals.repeated(sig) // records the first, so that a later one ends the return of the lease
	s.refused(s.child.pass(sig))
	s.child.isStopped() // if the signal has stopped both, that is no news
}
