package sim

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/sim/stream"
)

const servers = 3

func (s *Simulation) drawServer() int {
	if !s.server.replicated() {
		return 0
	}
	return s.rng.IntN(servers)
}

// partition cuts one server off from the others. The connections of its peers live on, but
// nothing comes by them.
type partition struct {
	server   int
	since    uint64          // the stream's last sequence when the partition began
	leads    bool            // the server is the stream's leader, or takes itself for it
	deposed  bool            // the others have elected another leader
	keeps    bool            // what is sent to the others, and by them, arrives when the partition ends
	proposed map[string]bool // keys whose writes the leader could not replicate
	kept     []delayed
}

// delayed is a message that arrives when the partition ends.
type delayed struct {
	at    Instant
	write bool // it is a peer's write, not an entry of the feed
	run   func()
}

// longestKept is how late the write of a cut-off peer may arrive: 7.7 s were measured.
const longestKept = 8 * time.Second

func (p *partition) cutsOff(l *link) bool { return p != nil && l.up && l.server == p.server }

// arrived handles a write that reaches the server that is cut off.
func (p *partition) arrived(l *link, w *peer.Write, number uint64) {
	s := l.n.s
	a, answered := p.refusal(s, w)
	if s.trace != nil {
		s.traceAbout("stream", "%s writes %s to the server that is cut off: %s", l.n.name(), describeWrite(w), describeAck(a, answered))
	}
	if p.keeps && s.chance(0.5) {
		late := *w
		p.kept = append(p.kept, delayed{s.now, true, func() {
			s.met.add("trap: late write")
			if answered {
				s.met.add("trap: late write after its refusal")
			}
			l.reached(&late, number)
		}})
	}
	if !answered {
		s.met.add("trap: no answer of a server that is cut off")
		return
	}
	s.met.add("trap: refused by a leader that is cut off")
	l.answer(w, number, a)
}

// refusal returns the answer of the server that is cut off. Only a leader answers: it
// refuses what its own state contradicts, and a write to a key for which an earlier one has
// not been replicated.
func (p *partition) refusal(s *Simulation, w *peer.Write) (a peer.Ack, answered bool) {
	if !p.leads || w.Expect != entry.ExpectRevision {
		return a, false
	}
	key := w.Key.String()
	if p.proposed[key] {
		return peer.Ack{Outcome: peer.InFlight}, true
	}
	if a, refused := s.server.staleAnswer(w, p.since); refused {
		return a, true
	}
	p.proposed[key] = true
	return a, false
}

// missed handles an entry that the leader has republished, and reports whether the link's
// server is cut off from it.
func (p *partition) missed(l *link, m *stream.Stored) bool {
	if !p.cutsOff(l) {
		return false
	}
	if f := l.n.feed; p.keeps {
		connection := l.connection
		p.kept = append(p.kept, delayed{l.n.s.now, false, func() {
			if l.connection == connection {
				f.republished(m)
			}
		}})
	} else {
		f.lose(m, "trap: entry lost on a cut route")
	}
	return true
}

// staleAnswer returns the refusal of a leader that knows the stream up to a sequence only.
func (v *server) staleAnswer(w *peer.Write, last uint64) (a peer.Ack, refused bool) {
	revision, known := v.stream.RevisionAt(w.Key.String(), last)
	if !known || w.Expect != entry.ExpectRevision || revision == w.Revision {
		return a, false
	}
	return peer.Ack{Outcome: peer.Conflict, Revision: revision}, true
}

// deposed is a leader that the servers have replaced, and that does not know it yet: for a
// moment it answers writes as well.
type deposed struct {
	until Instant
	last  uint64 // the last sequence that it knows
}

func (v *server) deposedAnswer(w *peer.Write) (a peer.Ack, answered bool) {
	s := v.s
	if s.now > v.deposed.until || s.ending || w.Expect != entry.ExpectRevision || !s.chance(s.plan.Feed.TwoAnswers) {
		return a, false
	}
	if a, refused := v.staleAnswer(w, v.deposed.last); refused && s.chance(0.7) {
		return a, true
	}
	return peer.Ack{Outcome: peer.InFlight}, true
}

// depose begins the moment in which two leaders answer. The old one knows the stream up to
// a sequence.
func (v *server) depose(last uint64) {
	if v.s.plan.Feed.TwoAnswers > 0 {
		v.deposed = deposed{v.s.now.Add(10*time.Millisecond + v.s.upTo(90*time.Millisecond)), last}
	}
}

// handover is the moment before the stream gets another leader. Each server republishes
// what it applies while it is the leader: an entry may be republished by none or by both.
type handover struct {
	active   bool
	repeats  bool // the entries are republished again
	entries  []stream.Stored
	lastOnes uint64 // the last sequence that no leader has republished
}

// handOver lets the plan's faults of a handover happen, and then calls begin, unless the
// stream has lost its leader meanwhile.
func (v *server) handOver(begin func()) {
	s := v.s
	plan := &s.plan.Feed
	if v.handover.active {
		return
	}
	if plan.Unpublished == 0 && plan.Repeated == 0 || !v.replicated() {
		begin()
		return
	}
	v.handover = handover{active: true, repeats: s.chance(plan.Repeated), lastOnes: v.handover.lastOnes}
	s.faultState.begin()
	s.after(s.upTo(100*time.Millisecond), func() {
		v.handover.active = false
		s.faultState.end(s.now)
		if v.handover.repeats {
			v.repeat(v.handover.entries)
		}
		if !v.down && !v.stream.Leaderless() {
			begin()
		}
	})
}

// takes handles a stored entry during a handover, and reports whether no leader republishes
// it.
func (h *handover) takes(v *server, m *stream.Stored) bool {
	if !h.active {
		return false
	}
	if h.entries = append(h.entries, *m); !v.s.chance(v.s.plan.Feed.Unpublished) {
		return false
	}
	h.lastOnes = m.Sequence
	return true
}

// repeat republishes entries again, to each peer at another time.
func (v *server) repeat(entries []stream.Stored) {
	s := v.s
	if len(entries) == 0 {
		return
	}
	for _, n := range s.nodes {
		d := s.upTo(10 * time.Second)
		s.faultState.disturb(s.now.Add(d))
		s.after(d, n.alive(func() {
			for i := range entries {
				if n.link.up {
					s.met.add("trap: entry repeated")
					n.feed.deliver(&entries[i])
				}
			}
		}))
	}
}
