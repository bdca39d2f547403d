package peer

import "fmt"

// Remains describes the pending work: unanswered calls other than Follow, pools and
// sessions in use, and purges. It returns "" if there is none. It is for tests, which look
// for work that a peer has forgotten.
func (p *Peer) Remains() string {
	calls := len(p.calls.open)
	for _, list := range p.follows.byHash {
		calls -= len(list)
	}
	if calls+len(p.pools.byID)+len(p.sessions.byID)+p.writes.discarding == 0 {
		return ""
	}
	text := fmt.Sprintf("%d calls, %d pools, %d sessions, %d discards", calls, len(p.pools.byID), len(p.sessions.byID), p.writes.discarding)
	for _, ps := range p.pools.byID {
		awaits := 0
		for key, list := range p.enqueued.awaits {
			if key.pool == ps.id {
				awaits += len(list)
			}
		}
		text += fmt.Sprintf("\n  pool %s: queue %d tickets %d users %d awaits %d",
			ps.id, len(ps.queue), len(ps.tickets), ps.users, awaits)
	}
	return text
}
