package sim

import (
	"math/rand/v2"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/sim/stream"
)

// epoch is the wall clock's time at Instant 0.
var epoch = time.Unix(1_790_000_000, 0)

// server is the stream with its surroundings: what is down, what a new entry
// wakes, and when the stream next changes by itself.
type server struct {
	s        *Simulation
	stream   *stream.Stream
	truth    *truth
	entries  []*entry.Entry // by sequence modulo its length: each is parsed once
	down     bool           // no server takes a connection
	noWatch  int            // faults for which no consumer can be created
	wakesAt  Instant
	clock    time.Duration // the leader's clock is ahead by that much
	setBack  bool          // it was set back once: a marker may be gone, and what it replaced not
	stepped  Instant       // when that last changed; 0: never
	misread  Instant       // the last change of the clock before a peer built its view
	messages uint64
}

func newServer(s *Simulation) *server {
	o := stream.Options{Replicas: s.plan.Replicas, Traps: stream.Plain()}
	if s.plan.Traps {
		o.Traps = stream.Measured()
	}
	srv := &server{s: s, entries: make([]*entry.Entry, 1024)}
	srv.stream = stream.New(o, rand.New(rand.NewPCG(s.plan.Seed, 0x73747265616d)), srv.wall())
	srv.truth = newTruth(s, srv.stream)
	return srv
}

func (v *server) replicated() bool { return v.s.plan.Replicas > 1 }

// wall is the time by a wall clock that nothing ever steps.
func (v *server) wall() time.Time { return epoch.Add(time.Duration(v.s.now)) }

// advance lets the stream catch up with the clock. Called before and after
// anything is done with it.
func (v *server) advance() {
	v.stream.Advance(v.wall())
	v.changed()
}

// changed takes note of what is new in the stream, and wakes the watches.
func (v *server) changed() {
	if v.truth.catchUp() {
		for _, n := range v.s.nodes {
			n.watch.wake()
		}
	}
	v.wakeAtExpiry()
}

func (v *server) wakeAtExpiry() {
	next := v.stream.NextExpiry()
	if next.IsZero() {
		return
	}
	at := max(Instant(next.Sub(epoch)), v.s.now+1)
	if v.wakesAt > v.s.now && v.wakesAt <= at {
		return
	}
	v.wakesAt = at
	v.s.at(at, func() {
		if v.wakesAt == at {
			v.wakesAt = 0
			v.advance()
		}
	})
}

// entry is a stored message taken apart. All that get it share it.
func (v *server) entry(m *stream.Stored) *entry.Entry {
	at := &v.entries[m.Sequence%uint64(len(v.entries))]
	if *at == nil || (*at).Revision != m.Sequence || !(*at).Time.Equal(m.Time) {
		e := m.Entry()
		*at = &e
	}
	return *at
}

// setClock sets the leader's clock.
func (v *server) setClock(ahead time.Duration) {
	if ahead < v.clock {
		v.setBack = true
	}
	if ahead != v.clock {
		v.clock, v.stepped = ahead, v.s.now
	}
}

// misled reports whether a peer may have taken something that was written at a
// time for older than it is: it has read the stream after the leader's clock was
// stepped, and so cannot know.
func (v *server) misled(at Instant) bool { return v.misread >= at }

// publish is a write that has arrived. It returns no answer when the server gives
// none.
func (v *server) publish(w *peer.Write) (a peer.Ack, answered bool) {
	v.stream.Advance(v.wall())
	v.messages++
	got := v.stream.Publish(message(&w.Message), v.wall())
	v.changed()
	switch {
	case got.Unanswered:
		v.s.calm.pulse(v.s.now)
		return a, false
	case got.Code == 0:
		return peer.Ack{Outcome: peer.Written, Revision: got.Sequence}, true
	case got.Code == stream.CodeConflict:
		return peer.Ack{Outcome: peer.Conflict, Revision: got.Revision}, true
	case got.Code == stream.CodeInFlight:
		return peer.Ack{Outcome: peer.InFlight}, true
	case got.Code == stream.CodeNoResponders:
		v.s.calm.pulse(v.s.now)
		return peer.Ack{Outcome: peer.NotNow}, true
	}
	v.s.fail("message", "the server refused %s with %d %s", w.Key, got.Code, got.Description)
	return peer.Ack{Outcome: peer.Never, Reason: got.Description}, true
}

// message is a peer's write as the server receives it.
func message(m *entry.Message) stream.Message {
	out := stream.Message{Key: m.Key.String(), Data: m.Data}
	m.Headers(func(name, value string) {
		switch name {
		case entry.HeaderExpected:
			out.Header.Expected = new(m.Revision)
		case entry.HeaderExpectedLast:
			out.Header.ExpectedLast = new(m.Revision)
		case entry.HeaderTTL:
			out.Header.TTL = value
		case entry.HeaderOperation:
			out.Header.Operation = value
		default:
			if out.Header.Other == nil {
				out.Header.Other = map[string]string{}
			}
			out.Header.Other[name] = value
		}
	})
	return out
}

// reachable reports whether a request of the JetStream API is answered.
func (v *server) reachable() bool { return !v.down && !v.stream.Leaderless() && v.stream.Exists() }

func (v *server) info() peer.StreamInfo {
	i := v.stream.Info()
	return peer.StreamInfo{Created: i.Created, Last: i.Last, Now: v.wall().Add(v.clock)}
}

// count adds what the stream has met.
func (v *server) count() {
	for _, t := range stream.AllTraps() {
		v.s.met.addN("stream: "+t.String(), uint64(v.stream.Met(t)))
	}
}
