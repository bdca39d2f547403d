package kvslots

import (
	"context"
	"errors"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

const sessionRetry = 100 * time.Millisecond // after a refresh that was not written

// localSession is what this peer has to do with one client session. It is there for
// as long as the session is used here.
//
// A session is refreshed by whoever is asked by it, but not each time: in the
// first third of its idle time a touch is only remembered, and written when that
// third is over. So a peer that dies takes no more than a third with it.
type localSession struct {
	hash    entry.Hash
	calls   int           // under way
	touched rules.Instant // when it was last used
	ops     map[*borrow]struct{}
	timer   *time.Timer // until it is to be looked at; nil when it is not
	writing bool
	resting rules.Instant // it is not refreshed before
}

// alive tells whether the view has the session.
func (b *bucket) alive(session entry.Hash) bool {
	s := b.world.Session(session)
	return s != nil && s.Present
}

func (b *bucket) localSession(session entry.Hash) *localSession {
	c := b.sessions[session]
	if c == nil {
		c = &localSession{hash: session, ops: map[*borrow]struct{}{}}
		b.sessions[session] = c
	}
	return c
}

// call notes that a session is being used, until done is called.
func (b *bucket) call(session entry.Hash) (done func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.localSession(session)
	c.calls++
	b.touch(c)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.touch(c)
		c.calls--
		b.attend(c)
	}
}

func (b *bucket) touch(c *localSession) {
	c.touched = b.now()
	b.attend(c)
}

// enter notes that a borrower is one of a session's.
func (b *bucket) enter(op *borrow) {
	if !op.session.IsZero() {
		b.localSession(op.session).ops[op] = struct{}{}
	}
}

func (b *bucket) leaveSession(op *borrow) {
	if c := b.sessions[op.session]; c != nil {
		delete(c.ops, op)
	}
}

// attend refreshes the session if it is time, and sees to it that it is looked
// at when it will be. It forgets one that has not been used since.
func (b *bucket) attend(c *localSession) {
	if c.timer != nil || c.writing || b.closing {
		return
	}
	s := b.world.Session(c.hash)
	if s == nil || !s.Present {
		b.forgetSession(c)
		return
	}
	now, idle := b.now(), s.Value.Idle.Duration()
	if c.calls > 0 {
		c.touched = now
	}
	due := max(s.Seen.Add(idle/3), c.resting)
	switch needed := c.touched.Add(idle) > s.Seen.Add(s.Value.Left()); {
	case now < due && (needed || c.calls > 0):
		b.wakeSession(c, time.Duration(due-now))
	case needed:
		b.refresh(c, s)
	case c.calls > 0:
		b.wakeSession(c, idle/3)
	default:
		b.forgetSession(c)
	}
}

func (b *bucket) wakeSession(c *localSession, after time.Duration) {
	c.timer = time.AfterFunc(after, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		c.timer = nil
		b.attend(c)
	})
}

// forgetSession drops what nobody needs any more.
func (b *bucket) forgetSession(c *localSession) {
	if c.calls == 0 && len(c.ops) == 0 && b.sessions[c.hash] == c {
		delete(b.sessions, c.hash)
	}
}

func (b *bucket) refresh(c *localSession, s *rules.Session) {
	c.writing = true
	c.resting = b.now().Add(s.Value.Idle.Duration() / 3)
	b.send(b.refreshment(c, s), func(a ack) {
		b.mu.Lock()
		defer b.mu.Unlock()
		c.writing = false
		if a.err != nil {
			c.resting = b.now().Add(sessionRetry)
		}
		b.attend(c)
	})
}

// refreshment is the session with the time it has been idle. It is written by
// compare-and-swap, and never re-created.
func (b *bucket) refreshment(c *localSession, s *rules.Session) *record {
	value := s.Value
	value.Idled = entry.Span(min(time.Duration(b.now()-c.touched), value.Idle.Duration()-time.Millisecond).Truncate(time.Millisecond))
	return write(entry.Key{Kind: entry.Session, Session: c.hash}, value, s.Revision, value.Left())
}

// sessionSeen ends what a session has under way here, when it has ended. One
// that has just been created is counted by the view from now on.
func (b *bucket) sessionSeen(e entry.Entry) {
	if e.Key.Kind != entry.Session {
		return
	}
	delete(b.creating, e.Key.Session)
	if !e.Marker {
		return
	}
	c := b.sessions[e.Key.Session]
	if c == nil {
		return
	}
	for op := range c.ops {
		b.finish(b.locals[op.pool], op, nil, ErrSessionGone)
	}
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	b.forgetSession(c)
}

// forgetSessions is for the end.
func (b *bucket) forgetSessions() {
	for _, c := range b.sessions {
		if c.timer != nil {
			c.timer.Stop()
		}
	}
}

// ping touches a session, which refreshes it if it is time, and tells whether it
// is there.
func (b *bucket) ping(ctx context.Context, session entry.Hash) error {
	defer b.call(session)()
	return b.askAlive(ctx, session)
}

// askAlive asks whether a session is there.
func (b *bucket) askAlive(ctx context.Context, session entry.Hash) error {
	alive := false
	err := b.ask(ctx, func() bool { alive = b.alive(session); return true })
	if err == nil && !alive {
		err = ErrSessionGone
	}
	return err
}

// needAlive is for what cannot tell by itself that a session is gone. A session
// that the view has may be gone a moment later.
func (b *bucket) needAlive(ctx context.Context, session entry.Hash) error {
	b.mu.Lock()
	alive := b.alive(session)
	b.mu.Unlock()
	if alive {
		return nil
	}
	return b.askAlive(ctx, session)
}

// createSession writes a new session.
func (b *bucket) createSession(ctx context.Context, session entry.Hash, idle time.Duration, origin entry.Hash) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	b.mu.Lock()
	err := b.sessionCap(origin)
	if err == nil {
		b.creating[session] = origin
	}
	b.mu.Unlock()
	if err != nil {
		return err
	}
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.creating, session)
	}()
	value := entry.SessionValue{Kind: entry.SessionClient, Idle: entry.Span(idle), Origin: origin}
	for {
		a, err := b.put1(ctx, write(entry.Key{Kind: entry.Session, Session: session}, value, 0, idle))
		switch {
		case err != nil:
			return err
		case a.err == nil:
			return b.askAt(ctx, a.revision, func() bool { return true })
		}
		if err := b.pauseFor(ctx, entry.Hash{}, a); err != nil {
			return err
		}
	}
}

func (b *bucket) sessionCap(origin entry.Hash) error {
	if most := b.cfg.MaxSessions; most > 0 && b.world.Clients()+len(b.creating) >= most {
		return ErrMaxSessions
	}
	if most := b.cfg.MaxSessionsPerOrigin; most > 0 && !origin.IsZero() && b.world.ClientsFrom(origin)+b.creatingFrom(origin) >= most {
		return ErrMaxSessionsPerOrigin
	}
	return nil
}

func (b *bucket) creatingFrom(origin entry.Hash) (n int) {
	for _, from := range b.creating {
		if from == origin {
			n++
		}
	}
	return n
}

// removeSession ends a session, and purges what it leaves.
func (b *bucket) removeSession(ctx context.Context, session entry.Hash) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	key := entry.Key{Kind: entry.Session, Session: session}
	for {
		b.mu.Lock()
		s := b.world.Session(session)
		if s == nil || !s.Present {
			b.mu.Unlock()
			err := b.askAlive(ctx, session)
			if err != nil {
				return err
			}
			continue
		}
		revision, clear := s.Revision, b.leftBy(session)
		b.mu.Unlock()
		a, err := b.put1(ctx, purge(key, revision, 0))
		if err != nil {
			return err
		}
		if a.err == nil {
			return b.askAt(ctx, a.revision, func() bool { clear(); return true })
		}
		if errors.Is(a.err, errConflict) && a.revision == 0 {
			return ErrSessionGone
		}
		if err := b.afterConflict(ctx, entry.Hash{}, a); err != nil {
			return err
		}
	}
}
