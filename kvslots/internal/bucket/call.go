package bucket

import (
	"context"
	"sync"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// call is a request that the peer has not answered yet.
type call struct {
	request  peer.Request
	answered chan peer.Answer
	ended    func() // of Follow, instead
}

// calls are used again, so that a call allocates no channel.
var calls = sync.Pool{New: func() any { return &call{answered: make(chan peer.Answer, 1)} }}

// Do asks the peer and waits for the answer. When ctx ends, the peer is told
// with context.Cause; Do then returns what the peer makes of that, at once or
// within the peer's own bound.
func (b *Bucket) Do(ctx context.Context, r peer.Request) (peer.Answer, error) {
	c := calls.Get().(*call)
	defer calls.Put(c)
	b.mu.Lock()
	id := b.peer.Do(r, b.now())
	c.request, b.calls[id] = r, c
	b.settle()
	select {
	case a := <-c.answered:
		return a, a.Err
	case <-ctx.Done():
	}
	b.giveUp(id, context.Cause(ctx))
	a := <-c.answered
	return a, a.Err
}

// Asked reports whether a call is open whose request matches. It is for tests.
func (b *Bucket) Asked(match func(peer.Request) bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.calls {
		if match(c.request) {
			return true
		}
	}
	return false
}

func (b *Bucket) giveUp(id uint64, why error) {
	b.mu.Lock()
	if _, open := b.calls[id]; open {
		b.peer.GiveUp(id, why, b.now())
	}
	b.settle()
}

// Follow calls ended once, without a lock, when the view shows that a lease has
// ended. It does not call it when the Bucket is closed, nor after stop.
func (b *Bucket) Follow(r peer.Follow, ended func()) (stop func()) {
	b.mu.Lock()
	id := b.peer.Do(r, b.now())
	b.calls[id] = &call{request: r, ended: ended}
	b.settle()
	return func() {
		b.mu.Lock()
		if _, open := b.calls[id]; open {
			delete(b.calls, id)
			b.peer.GiveUp(id, context.Canceled, b.now())
		}
		b.settle()
	}
}

// answer hands the peer's answers to their callers, or returns those that have to
// wait for a flush. It also returns what is to be called without the lock: that a
// lease has ended waits for nothing, since its holder had better stop.
func (b *Bucket) answer(answers []peer.Answer) (replies []reply, ended []func()) {
	for _, a := range answers {
		c, open := b.calls[a.Call]
		delete(b.calls, a.Call)
		switch {
		case !open:
		case c.ended == nil:
			if b.durable == nil || tellsNothing(a) {
				c.answered <- a
			} else {
				replies = append(replies, reply{c, a})
			}
		case a.Err == nil:
			ended = append(ended, c.ended)
		}
	}
	return replies, ended
}
