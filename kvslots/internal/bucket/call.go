package bucket

import (
	"context"
	"errors"
	"sync"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

type call struct {
	b        *Bucket
	id       uint64
	request  peer.Request
	answered chan struct{} // receives one value when answer is final, unless abandoned
	answer   peer.Answer

	// The Bucket's lock guards these.
	flushing  bool // answer waits for a flush
	abandoned bool // the caller did not wait for the flush
}

// calls reuses them, so that a request allocates no channel.
var calls = sync.Pool{New: func() any { return &call{answered: make(chan struct{}, 1)} }}

// Do sends a request to the peer and waits for the answer. When ctx ends, Do gives the
// request up with context.Cause(ctx), and returns what the peer then answers, at once or
// within the peer's own timeout, without waiting for a flush.
func (b *Bucket) Do(ctx context.Context, r peer.Request) (peer.Answer, error) {
	c := calls.Get().(*call)
	b.WithPeer(func(p *peer.Peer, now peer.Instant) {
		c.b, c.request, c.id = b, r, p.Do(r, now)
		b.calls[c.id] = c
	})
	c.wait(ctx)
	a := c.answer
	if !c.abandoned { // otherwise flush still refers to it
		c.request, c.answer = nil, peer.Answer{}
		calls.Put(c)
	}
	return a, a.Err
}

// wait blocks until the peer has answered. When ctx ends, it gives the request up.
func (c *call) wait(ctx context.Context) {
	select {
	case <-c.answered:
		return
	case <-ctx.Done():
	}
	if !c.abandon(context.Cause(ctx)) {
		<-c.answered
	}
}

// abandon gives a request up. It returns true, with a final answer, if the answer waited
// for a flush, which may hang. A session that keeps its place also keeps a slot that it was
// just granted, so its answer goes on waiting.
func (c *call) abandon(why error) bool {
	c.b.WithPeer(func(p *peer.Peer, now peer.Instant) {
		if _, pending := c.b.calls[c.id]; pending {
			p.GiveUp(c.id, why, now)
		}
	})
	c.b.WithPeer(func(p *peer.Peer, now peer.Instant) {
		if c.flushing && !errors.Is(why, peer.ErrPlaceKept) {
			c.abandoned = true
			p.Untold(&c.answer, why, now)
		}
	})
	return c.abandoned
}

// answer delivers the peer's answers to their callers, or returns the calls whose answers
// have to wait for a flush.
func (b *Bucket) answer(answers []peer.Answer) (flushing []*call) {
	for _, a := range answers {
		c, pending := b.calls[a.Call]
		if !pending {
			continue
		}
		delete(b.calls, a.Call)
		c.answer = a
		if b.durable == nil || needsNoFlush(c.request, a) {
			c.answered <- struct{}{}
		} else {
			c.flushing = true
			flushing = append(flushing, c)
		}
	}
	return flushing
}
