package sim

import "time"

// silenceLimit is how long the shell writes without a sign that the stream has a leader,
// before it connects to another server of the cluster.
const silenceLimit = 2 * time.Second

// silence is the time for which a node's shell has heard nothing by its connection: no
// write was acknowledged as written, and no entry came by the feed. The connection of a
// server that is cut off from the stream's leader does not break, so the shell leaves it.
type silence struct {
	since Instant // when the first write was sent since the last sign; 0 if none was
	moves int     // how often the shell has connected to another server since the last sign
}

func (l *link) heard() { l.silence = silence{} }

// awaitSign records that a write is sent, which should lead to a sign.
func (l *link) awaitSign() {
	s := l.n.s
	if l.silence.since != 0 || !s.server.replicated() {
		return
	}
	since := s.now
	l.silence.since = since
	s.after(silenceLimit<<min(l.moves, 3)+s.upTo(time.Second/2), l.n.alive(func() {
		switch {
		case l.silence.since != since || !l.up:
		case l.n.pauses > 0 || l.n.pausedUntil > since:
			l.silence.since = 0 // the shell stood still, too
		default:
			l.leave()
		}
	}))
}

func (l *link) leave() {
	s := l.n.s
	s.met.add("trap: another server")
	s.faultState.disturb(s.now)
	moves := l.moves + 1
	l.cut(true)
	l.moves = moves
	other := (l.server + 1 + s.rng.IntN(servers-1)) % servers
	s.after(s.upTo(50*time.Millisecond), l.n.alive(func() { l.connect(other) }))
}
