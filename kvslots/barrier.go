package kvslots

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

const (
	barrierRetry = 50 * time.Millisecond

	// barrierTimeout is how long a barrier may go unanswered: it may have been
	// sent to a leader that was one no more. Another one does no harm.
	barrierTimeout = 500 * time.Millisecond

	// patience is how long a question may stay without an answer when nothing
	// else bounds it: then the store is unavailable.
	patience = 5 * time.Second
)

// question is asked of the view, and answered at the first instant at which the
// view is exact and as new as the moment it was asked.
type question struct {
	revision uint64      // the view must have reached it
	loose    bool        // the view need not be exact
	try      func() bool // called under the lock; true says that it is answered
	err      error
	done     chan struct{}
}

func (q *question) answer(err error) {
	q.err = err
	close(q.done)
}

// ask calls try, under the lock, as soon as the view is exact and contains
// everything that had happened when ask was called; and again at later such
// instants until it returns true.
func (b *bucket) ask(ctx context.Context, try func() bool) error {
	return b.wait(ctx, &question{try: try})
}

// askAt is like askFrom, for a question about one key only: it needs no exact
// view.
func (b *bucket) askAt(ctx context.Context, revision uint64, try func() bool) error {
	return b.wait(ctx, &question{revision: revision, loose: true, try: try})
}

// askFrom is like ask, for a revision that the caller has been told of: it needs
// no barrier of its own.
func (b *bucket) askFrom(ctx context.Context, revision uint64, try func() bool) error {
	return b.wait(ctx, &question{revision: revision, try: try})
}

func (b *bucket) wait(ctx context.Context, q *question) error {
	q.done = make(chan struct{})
	b.mu.Lock()
	b.put(q)
	b.mu.Unlock()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-q.done:
		return q.err
	case <-ctx.Done():
		return b.withdraw(q, context.Cause(ctx))
	case <-limit.C:
		return b.withdraw(q, ErrUnavailable)
	}
}

// put takes a question up.
func (b *bucket) put(q *question) {
	if b.closing {
		q.answer(ErrClosed)
		return
	}
	if q.revision == 0 {
		b.asked = append(b.asked, q)
		poke(b.wakeBarrier)
		return
	}
	b.open = append(b.open, q)
	b.follow()
}

func (b *bucket) withdraw(q *question, why error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop(q)
	select {
	case <-q.done:
		return q.err
	default:
		return why
	}
}

func (b *bucket) drop(q *question) {
	is := func(other *question) bool { return other == q }
	b.asked = slices.DeleteFunc(b.asked, is)
	b.open = slices.DeleteFunc(b.open, is)
}

// answerQuestions answers what can be answered where the view now stands. A try
// may put new questions; those wait for the next call.
func (b *bucket) answerQuestions() {
	if len(b.open) == 0 || !b.loaded {
		return
	}
	questions := b.open
	b.open = nil
	exact := b.world.Exact()
	if !exact {
		b.wantExact()
	}
	for _, q := range questions {
		if b.world.Revision >= q.revision && (exact || q.loose) && q.try() {
			q.answer(nil)
		} else {
			b.open = append(b.open, q)
		}
	}
}

// wantExact sees to it that a barrier is sent unless the view is exact.
func (b *bucket) wantExact() {
	b.needed = true
	poke(b.wakeBarrier)
}

// wantExactFor does so for those in a pool, who are taken further then.
func (b *bucket) wantExactFor(pool entry.Hash) {
	b.inexact[pool] = struct{}{}
	b.wantExact()
}

// keepExact sends the barriers, one at a time. Each serves everybody who came
// before it was sent.
func (b *bucket) keepExact() {
	for {
		select {
		case <-b.closed:
			return
		case <-b.wakeBarrier:
		}
		for b.barrierWanted() {
			if !b.sendBarrier() && !b.sleep(barrierRetry) {
				return
			}
		}
	}
}

func (b *bucket) barrierWanted() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closing {
		return false
	}
	return len(b.asked) > 0 || (b.needed && !b.world.Exact() && b.loaded)
}

// sendBarrier sends one barrier and waits until the view has reached it.
func (b *bucket) sendBarrier() bool {
	b.mu.Lock()
	questions, world := b.asked, b.world
	b.asked, b.needed = nil, false
	sent := world.Revision
	acked := make(chan ack, 1)
	if b.self.revision == 0 {
		acked <- ack{err: errNotSent} // no name to write it under yet
	} else {
		b.stats.barriers++
		b.send(b.barrierRecord(), func(a ack) { acked <- a })
	}
	b.mu.Unlock()

	revision, err := b.barrierRevision(within(acked, barrierTimeout))
	b.mu.Lock()
	if err != nil || b.world != world {
		b.asked = append(questions, b.asked...)
		b.needed = true
		b.mu.Unlock()
		return err == nil
	}
	for _, q := range questions {
		q.revision = revision
	}
	b.open = append(b.open, questions...)
	reached := make(chan struct{})
	mark := &question{revision: revision, loose: true, done: reached, try: func() bool {
		world.Reached(sent, b.now())
		b.settleExact()
		return true
	}}
	b.open = append([]*question{mark}, b.open...) // first: it makes the view exact
	b.follow()
	b.mu.Unlock()

	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-reached:
	case <-b.closed:
	case <-t.C:
		b.mu.Lock()
		b.drop(mark)
		b.mu.Unlock()
	}
	return true
}

// within waits for an answer, but not for long.
func within(acked <-chan ack, d time.Duration) ack {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case a := <-acked:
		return a
	case <-t.C:
		return ack{err: errUnknown}
	}
}

// settleExact judges again what could not be judged while the view was not
// exact.
func (b *bucket) settleExact() {
	if !b.world.Exact() {
		return
	}
	for lp := range b.claiming {
		b.dirty[lp.id] = struct{}{}
	}
	for id := range b.inexact {
		b.dirty[id] = struct{}{}
	}
	clear(b.inexact)
}

// barrierRecord is something that the stream's leader puts in order with
// everything else. On one node an impossible expectation will do, for its
// refusal tells the last sequence; a replicated stream needs a write.
func (b *bucket) barrierRecord() *record {
	key := entry.Key{Kind: entry.Barrier, Session: b.self.id}
	if !b.replicated() {
		r := newRecord(key, 0)
		r.Header.Del(entry.HeaderExpected)
		r.Header.Set("Nats-Expected-Last-Sequence", "1")
		return r
	}
	r := write(key, entry.BarrierValue{Previous: b.self.barrier}, 0, 0)
	r.Header.Del(entry.HeaderExpected)
	r.life = guard
	return r
}

func (b *bucket) barrierRevision(a ack) (uint64, error) {
	switch {
	case a.err == nil:
		b.mu.Lock()
		b.self.barrier = a.revision
		b.mu.Unlock()
		return a.revision, nil
	case errors.Is(a.err, errConflict) && a.revision != 0 && !b.replicated():
		return a.revision, nil
	}
	return 0, a.err
}
