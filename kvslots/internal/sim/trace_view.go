package sim

import (
	"fmt"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// traceView records a reading that the peer has ordered, with the region of its view that
// the reading checks, and a change of the view's mode.
func (n *node) traceView(r *peer.Ready) {
	if n.s.trace == nil {
		return
	}
	at := n.peer.View().Revision
	switch {
	case r.Reading == nil:
	case r.Reading.From == 0:
		n.s.tracef(n.name(), "orders reading %d, of everything", r.Reading.Number)
	default:
		n.s.tracef(n.name(), "orders reading %d, which checks its view from %d to %d", r.Reading.Number, r.Reading.From, at)
	}
	if mode := n.viewMode(); mode != n.tracedMode {
		n.tracedMode = mode
		n.s.tracef(n.name(), "has a view that is %s at %d", mode, at)
		n.traceDifference()
	}
}

func (n *node) viewMode() string {
	switch {
	case n.peer.Loading():
		return "being loaded"
	case n.peer.View().Live:
		return "live"
	}
	return "catching up"
}

// traceDifference records the first difference between the peer's view and the stream,
// unless the view is being loaded: of the entries that only one of the two has, the one
// with the lowest revision. What the view has not reached yet is no difference.
func (n *node) traceDifference() {
	v, first, difference := n.peer.View(), "", ""
	if n.peer.Loading() {
		return
	}
	for key := range n.s.trace.keys {
		has, taken := v.Latest(key)
		m, stored := n.s.server.stream.Get(key.String())
		if stored && m.Sequence > v.Revision || key.Kind == entry.Barrier {
			continue
		}
		value := stored && !n.s.server.entry(&m).Marker
		if value == taken && (!value || has == m.Sequence) {
			continue
		}
		if place := fmt.Sprintf("%020d %s", max(has, m.Sequence), key); first == "" || place < first {
			first, difference = place, fmt.Sprintf("%s: the stream has %s, and the view %s", describeKey(key), describeRevision(m.Sequence, value), describeRevision(has, taken))
		}
	}
	if difference != "" {
		n.s.tracef(n.name(), "has a view that differs from the stream, first at %s", difference)
	}
}

func describeRevision(revision uint64, value bool) string {
	switch {
	case revision == 0:
		return "nothing"
	case value:
		return fmt.Sprint(revision)
	}
	return fmt.Sprintf("the marker %d", revision)
}
