package sim

import (
	"math/rand/v2"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/sim/stream"
)

var epoch = time.Unix(1_790_000_000, 0)

// server is the NATS server with the model of the stream. It wakes the readings when
// an entry is new, and advances the stream when an entry expires.
type server struct {
	s             *Simulation
	stream        *stream.Stream
	truth         *truth
	entries       []*entry.Entry // a cache, so that each message is parsed once; by sequence modulo its length
	down          bool           // refuses connections
	readingFaults int            // number of faults that prevent new consumers
	expiryEvent   Instant
	clock         time.Duration // the leader's clock minus the true time
	clockWentBack bool          // a marker may have expired before the entry that it replaced
	steppedAt     Instant       // when clock last changed; 0: never
	clockSteps    uint64        // number of such changes
	misreadAt     Instant       // the last such change before a peer built its view, and learnt of no other peer
	messages      uint64
	ticketWrites  map[entry.Key]int // writes of tickets under way
	partition     *partition        // nil if no server is cut off
	deposed       deposed
	handover      handover
}

func newServer(s *Simulation) *server {
	o := stream.Options{Replicas: s.plan.Replicas, Traps: stream.Plain()}
	if s.plan.Traps {
		o.Traps = stream.Measured()
	}
	srv := &server{s: s, entries: make([]*entry.Entry, 1024), ticketWrites: map[entry.Key]int{}}
	srv.stream = stream.New(o, rand.New(rand.NewPCG(s.plan.Seed, 0x73747265616d)), srv.wall())
	srv.truth = newTruth(s, srv.stream)
	return srv
}

func (v *server) replicated() bool { return v.s.plan.Replicas > 1 }

// wall returns the true wall clock time, which never steps.
func (v *server) wall() time.Time { return epoch.Add(time.Duration(v.s.now)) }

func (v *server) advance() {
	v.stream.Advance(v.wall())
	v.changed()
}

// changed handles new entries: it updates truth, wakes the readings, and republishes them.
func (v *server) changed() {
	if v.truth.catchUp() {
		for _, n := range v.s.nodes {
			n.reading.schedulePoll()
		}
	}
	for _, m := range v.stream.Republished() {
		v.republish(&m)
	}
	v.wakeAtExpiry()
}

func (v *server) republish(m *stream.Stored) {
	unpublished := v.handover.takes(v, m)
	for _, n := range v.s.nodes {
		switch {
		case n.peer == nil || !n.link.up:
		case unpublished:
			n.feed.lose(m, "trap: entry not republished")
		case !v.partition.missed(n.link, m):
			n.feed.republished(m)
		}
	}
}

func (v *server) wakeAtExpiry() {
	next := v.stream.NextExpiry()
	if next.IsZero() {
		return
	}
	at := max(Instant(next.Sub(epoch)), v.s.now+1)
	if v.expiryEvent > v.s.now && v.expiryEvent <= at {
		return
	}
	v.expiryEvent = at
	v.s.at(at, func() {
		if v.expiryEvent == at {
			v.expiryEvent = 0
			v.advance()
		}
	})
}

func (v *server) entry(m *stream.Stored) *entry.Entry {
	at := &v.entries[m.Sequence%uint64(len(v.entries))]
	if *at == nil || (*at).Revision != m.Sequence || !(*at).Time.Equal(m.Time) {
		*at = new(m.Entry())
	}
	return *at
}

// mayRevive reports whether an entry of a pool, or a session, that a marker had replaced may have
// come back, since the marker expired too early by a leader's clock: a killed server has brought
// it back, which no running peer sees before it loads its view; or a peer has loaded it from a
// replica that was behind. A zero pool stands for the sessions alone.
func (v *server) mayRevive(pool entry.Hash) bool {
	among := func(keys map[string]bool) bool {
		for text := range keys {
			if key := entry.ParseKey(text); key.Kind == entry.Session || key.Kind != entry.Barrier && key.Pool == pool {
				return true
			}
		}
		return false
	}
	return v.stream.Met(stream.LateReplica) > 0 && among(v.stream.EarlyMarkers()) || v.clockWentBack && among(v.stream.RevivedKeys())
}

func (v *server) setClock(ahead time.Duration) {
	if ahead < v.clock {
		v.clockWentBack = true
	}
	if ahead != v.clock {
		v.clock, v.steppedAt = ahead, v.s.now
		v.clockSteps++
	}
}

// mayMisjudgeAge reports whether a peer may overestimate the age of an entry written at
// that time, because it read the stream after the leader's clock was stepped, and learnt of no other peer.
func (v *server) mayMisjudgeAge(at Instant) bool { return v.misreadAt >= at }

func (v *server) ageOf(e *entry.Entry) time.Duration { return v.wall().Add(v.clock).Sub(e.Time) }

// publish delivers a write to the stream. answered is false if the server does not
// answer.
func (v *server) publish(w *peer.Write) (a peer.Ack, answered bool) {
	v.stream.Advance(v.wall())
	v.messages++
	got := v.stream.Publish(message(&w.Message), v.wall())
	v.changed()
	switch {
	case got.Unanswered:
		v.s.faultState.disturb(v.s.now)
		return a, false
	case got.Code == 0:
		return peer.Ack{Outcome: peer.Written, Revision: got.Sequence}, true
	case got.Code == stream.CodeConflict:
		return peer.Ack{Outcome: peer.Conflict, Revision: got.Revision}, true
	case got.Code == stream.CodeInFlight:
		return peer.Ack{Outcome: peer.InFlight}, true
	case got.Code == stream.CodeNoResponders:
		v.s.faultState.disturb(v.s.now)
		return peer.Ack{Outcome: peer.NotNow}, true
	}
	v.s.fail("message", "the server refused %s with %d %s", w.Key, got.Code, got.Description)
	return peer.Ack{Outcome: peer.Never, Reason: got.Description}, true
}

func message(m *entry.Message) stream.Message {
	out := stream.Message{Key: m.Key.String(), Data: m.Value(nil)}
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

func (v *server) reachable() bool { return !v.down && !v.stream.Leaderless() && v.stream.Exists() }

// reachableBy reports whether the JetStream API answers a node, as far as the node hears it.
func (v *server) reachableBy(l *link) bool {
	return v.reachable() && !v.partition.cutsOff(l) && l.n.deaf == 0
}

func (v *server) info() peer.StreamInfo {
	i := v.stream.Info()
	return peer.StreamInfo{Created: i.Created, Last: i.Last, Now: v.wall().Add(v.clock), Replicas: v.s.plan.Replicas}
}

func (v *server) count() {
	for _, t := range stream.AllTraps() {
		v.s.met.addN("stream: "+t.String(), uint64(v.stream.Met(t)))
	}
}
