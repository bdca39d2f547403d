package peer

import "fmt"

// Remains describes the pending work: unanswered calls, pools and sessions in
// use, and purges. It returns "" if there is none. It is for tests, which look
// for work that a peer has forgotten.
func (p *Peer) Remains() string {
	calls, sessions := p.countCalls(), p.sessions.inUse()
	_, discards := p.countUnsettled()
	pools := p.pools.remains()
	if calls+len(pools)+sessions+discards == 0 {
		return ""
	}
	text := fmt.Sprintf("%d calls, %d pools, %d sessions, %d discards", calls, len(pools), sessions, discards)
	for _, pool := range pools {
		text += "\n  " + pool
	}
	return text
}
