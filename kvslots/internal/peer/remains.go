package peer

import (
	"fmt"
	"strings"
)

// Remains describes the pending work: unanswered calls other than Follow, pools and
// sessions in use, and purges. It returns "" if there is none. It is for tests, which look
// for work that a peer has forgotten.
func (p *Peer) Remains() string {
	followed := 0
	for _, list := range p.follows {
		followed += len(list)
	}
	var text strings.Builder
	for _, part := range []struct {
		what string
		n    int
	}{
		{"calls", len(p.calls.open) - followed},
		{"pools", len(p.pools.byID)},
		{"sessions", len(p.sessions)},
		{"releases", p.writes.releasing},
	} {
		if part.n > 0 {
			fmt.Fprintf(&text, "%d %s ", part.n, part.what)
		}
	}
	for _, ps := range p.pools.byID {
		fmt.Fprintf(&text, "\n  pool %s: queue %d claims %d tickets %d refusing %d promoting %d awaits %d flight %+v config %v held until %d",
			ps.id, len(ps.queue), len(ps.claims), len(ps.tickets), len(ps.refusing), len(ps.promoting), len(ps.awaits), ps.flight, ps.config != nil, ps.heldUntil)
	}
	return text.String()
}
