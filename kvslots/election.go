package kvslots

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/kvslots/kvslots/kvslots/clock"
)

// Leader is the winner of an Election. The zero Leader says that there is none.
type Leader struct {
	Label string    // the value of its Campaign
	Fence uint64    // higher than those of all leaders before it. What a leader writes to must compare it: see Lease.Fence
	Since time.Time // when it was elected, by this machine's clock
}

// Electorate is where the leader of an Election is read: a Store or a client.Client, over any transport.
type Electorate interface {
	ReadPool(ctx context.Context, pool PoolRef, page DetailPage) (PoolDetail, error)
	Watch(after uint64, pools ...PoolRef) EventReader
}

// Election elects a leader among the candidates for one lock by name: the session that holds it leads, and the
// others wait in line. It is safe for concurrent use.
type Election struct {
	session *Session
	name    string
	opts    []Option
	at      Electorate

	mu  sync.Mutex
	won *Mutex // of the last Campaign that was elected; never nil
}

// NewElection returns the election for the lock of a name. A session campaigns; it may be nil in a program that
// only observes. The leader is read at a Store or a client.Client, usually that of the session. The options
// are those of Session.Mutex: WithTTL says how long a leader that has died is still the leader.
func NewElection(session *Session, at Electorate, name string, opts ...Option) *Election {
	return &Election{session: session, at: at, name: name, opts: opts, won: session.Mutex(name)}
}

// Campaign blocks until this candidate is elected. Then it leads until Resign, or until Lost is closed. Others
// see it by the value, a label: see WithLabel. A Campaign of an Election that leads already waits in line, too.
// The errors are those of Mutex.Lock, and ErrSessionGone without a session.
func (e *Election) Campaign(ctx context.Context, value string) error {
	if e.session == nil {
		return ErrSessionGone
	}
	m := e.session.Mutex(e.name, slices.Concat(e.opts, []Option{WithLabel(value)})...)
	if err := m.Lock(ctx); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if lost := e.won.forget(); lost != nil {
		lost.end(ErrNotHeld)
	}
	e.won = m
	return nil
}

// Resign ends the leadership, and the first candidate in line is elected. The errors are those of Mutex.Unlock:
// ErrNotHeld if this Election does not lead.
func (e *Election) Resign(ctx context.Context) error { return e.last().Unlock(ctx) }

// Lost returns a channel that is closed when the leadership, as it is now, has ended, or if there is none.
func (e *Election) Lost() <-chan struct{} { return e.last().Done() }

// Fence returns the fencing token of the leadership, and 0 without one.
func (e *Election) Fence() uint64 { return e.last().Fence() }

// Context returns a context for the work of the leader, which ends before it is lost: see Lease.Context.
func (e *Election) Context(parent context.Context) (context.Context, context.CancelFunc) {
	return e.last().Context(parent)
}

func (e *Election) last() *Mutex {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.won
}

// Leader returns the present leader, or the zero Leader. The errors are those of Store.ReadPool except ErrNoPool.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	pool, err := e.at.ReadPool(ctx, ByName(e.name), DetailPage{MaxHolders: 1})
	if errors.Is(err, ErrNoPool) || err == nil && len(pool.Holders) == 0 {
		return Leader{}, nil
	}
	if err != nil {
		return Leader{}, err
	}
	h := &pool.Holders[0]
	return Leader{h.Label, h.Fence, time.Now().Add(-time.Duration(h.Age))}, nil
}

// Observe returns the present leader, if there is one, and then each change: a new leader, or the zero Leader when
// there is none any more. A slow reader gets the latest one only. While the server is unavailable it tries again.
// Over NATS, and where there are no events, it reads every second. The last pair has an error: context.Cause(ctx),
// that of Leader, or that of Watcher.Next.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		events := e.at.Watch(0, ByName(e.name))
		defer events.Close()
		for last, pause := (Leader{}), time.Duration(0); ; pause = observePause {
			now, err := e.next(ctx, events, pause)
			if err != nil {
				yield(Leader{}, err)
				return
			}
			if now.Fence != last.Fence && !yield(now, nil) {
				return
			}
			last = now
		}
	}
}

// observePause is the pause between two readings of the leader where there are no events.
const observePause = time.Second

// next returns the leader after the next event, or after a pause.
func (e *Election) next(ctx context.Context, events EventReader, pause time.Duration) (Leader, error) {
	for inLine := true; inLine; {
		changes, err := events.Next(ctx)
		if errors.Is(err, errors.ErrUnsupported) {
			clock.Sleep(ctx, pause)
			break
		}
		if err != nil {
			return Leader{}, err
		}
		inLine = !slices.ContainsFunc(changes, func(c Event) bool { return c.Type != EventJoined && c.Type != EventLeft })
	}
	now, err := e.Leader(ctx)
	for errors.Is(err, ErrUnavailable) && clock.Sleep(ctx, max(time.Second, retryAfter(err))) {
		now, err = e.Leader(ctx)
	}
	if ctx.Err() != nil {
		return Leader{}, context.Cause(ctx)
	}
	return now, err
}
