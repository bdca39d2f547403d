package sim

import (
	"encoding/json"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// witnessTime is how long a peer that has loaded its view waits for a sign of life of
// another peer, before it ends leases that it has found.
const witnessTime = 4 * time.Second

// loadedBeside counts loads after a step of the clock that no lease may suffer from.
const loadedBeside = "situation: loaded after a step of the clock, beside another peer"

// load is how a peer has loaded its view. The peer counts the age of what it finds by the
// leader's clock. If that was stepped before, the peer may misjudge the age. But if it
// learns of another peer in time, it gives all leases that it has found their full time.
type load struct {
	stepped   Instant // the last step of the clock before the load
	until     Instant // when the wait for another peer is over; 0 while the view is being loaded
	fed       bool    // the feed has delivered another peer's presence meanwhile
	witnessed bool    // the peer has applied it
}

func (n *node) beginLoad() { n.load = &load{stepped: n.s.server.steppedAt} }

// noteSent records which presence is the peer's own.
func (n *node) noteSent(w *peer.Write) {
	if w.Key.Kind != entry.Session || w.Marker || w.Key.Session == n.presence || n.s.check.sessions[w.Key.Session] != nil {
		return
	}
	var value entry.SessionValue
	if json.Unmarshal(w.Data, &value) == nil && value.Kind == entry.SessionPeer {
		n.presence = w.Key.Session
	}
}

func (n *node) noteFed(e *entry.Entry) {
	l := n.load
	if l != nil && l.until != 0 && e.Key.Kind == entry.Session && !e.Marker && e.Session.Kind == entry.SessionPeer {
		l.fed = l.fed || e.Key.Session != n.presence
	}
}

// observeLoad looks, after an input to the peer, how far its load has come.
func (n *node) observeLoad() {
	l := n.load
	switch {
	case l == nil || n.peer.Loading():
	case l.until == 0:
		if l.until = n.s.now.Add(witnessTime); n.s.plan.Sole { // it does not wait
			l.until = n.s.now
		}
		n.s.at(l.until, n.alive(func() {
			if n.load == l && !l.witnessed {
				n.s.server.misreadAt = max(n.s.server.misreadAt, l.stepped)
			}
		}))
	case l.fed && !l.witnessed && n.s.now < l.until && n.peer.Status(n.clock()) == nil:
		if l.witnessed = true; l.stepped > 0 {
			n.s.met.add(loadedBeside)
		}
	}
}
