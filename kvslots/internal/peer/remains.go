package peer

import "fmt"

// Remains describes the pending work: unanswered calls other than Follow, pools and
// sessions in use, and purges. It returns "" if there is none. It is for tests, which look
// for work that a peer has forgotten.
func (p *Peer) Remains() string {
	calls := len(p.calls.open)
	for _, list := range p.follows {
		calls -= len(list)
	}
	if calls+len(p.pools.byID)+len(p.sessions)+p.writes.releasing == 0 {
		return ""
	}
	text := fmt.Sprintf("%d calls, %d pools, %d sessions, %d releases", calls, len(p.pools.byID), len(p.sessions), p.writes.releasing)
	for _, ps := range p.pools.byID {
		text += fmt.Sprintf("\n  pool %s: queue %d claims %d tickets %d promoting %d awaits %d flight %+v config %v held until %d",
			ps.id, len(ps.queue), len(ps.claims), len(ps.tickets), len(ps.promoting), len(ps.awaits), ps.flight, ps.config != nil, ps.awaitedRevision)
	}
	return text
}
