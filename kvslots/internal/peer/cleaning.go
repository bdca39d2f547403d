package peer

import "time"

const (
	dueRetry = time.Second // until a key that is still due is purged again
	dueBatch = 256
)

// cleanUp purges the keys that are due. The clock only decides when this peer writes:
// a lease is live until its purge is in the stream. A key stays due until the view shows
// its purge, which may take seconds: until then the purge is not begun again.
func (p *Peer) cleanUp() {
	if p.isStopping() {
		return
	}
	p.view().Forget(p.now())
	for _, d := range p.view().Due(dueRetry, dueBatch, p.now()) {
		if p.isWritingOver(d.Key, d.Revision) {
			continue
		}
		switch {
		case d.Marker, d.Garbage:
			p.discard(d.Key, d.Revision, nil)
		case d.Slot != nil:
			p.expire(d)
		case d.Session != nil:
			p.sessions.expire(d)
		case !d.Ticket.Kept() || d.Ticket.Server() == p.self(): // otherwise its own peer writes it
			p.pools.adopt(d.Ticket, func() {})
		}
	}
	if p.view().Waits() {
		p.view().PassOver(p.now())
	}
	p.names.plan()
}
