package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// unseenLife is how much later than the view's time the peer may have written a message
// that the view does not show yet.
const unseenLife = 20 * time.Second

// release purges a key at a revision. No caller waits for that: the peer repeats the
// purge until the key is purged or has changed. done may be nil.
func (ws *writes) release(key entry.Key, revision uint64, done func(Ack)) {
	ws.releaseAs(ws.p.purge(key, revision), done)
}

func (ws *writes) releaseAs(m entry.Message, done func(Ack)) {
	ws.releasing++
	view := ws.p.view
	put(&ws.p.purging, m.Key, m.Revision)
	ws.sendIn(&ws.queues[releases], m, func(a Ack) {
		ws.releasing--
		if a.Outcome == Unknown && ws.p.view == view {
			ws.releaseAs(m, done)
			return
		}
		ws.p.reads.whenReached(a.Revision, func() { ws.p.purgeEnded(m.Key, m.Revision) })
		if done != nil {
			done(a)
		}
	})
}

// purge returns the message that frees a key. Its marker outlives every earlier value
// of the key.
func (p *Peer) purge(key entry.Key, revision uint64) entry.Message {
	m := entry.NewPurge(key, revision, rules.MarkerTTL)
	p.view.Outlive(&m)
	return m
}

// fence returns the message that frees the write's key, unless the write was written. The
// marker outlives the write as well, which the view need not show yet.
func (w *write) fence() entry.Message {
	m := w.p.purge(w.msg.Key, w.msg.Revision)
	m.TTL = max(m.TTL, w.msg.TTL+unseenLife)
	m.Outlives = max(m.Outlives, w.p.view.Time.Add(w.msg.TTL+unseenLife).UnixMilli())
	return m
}

// value returns the message that writes a value to a key. It outlives every earlier
// value of the key. ttl is how long the value has a meaning.
func (p *Peer) value(key entry.Key, v any, revision uint64, ttl time.Duration) entry.Message {
	m := entry.NewMessage(key, v, revision, ttl+rules.Guard)
	p.view.Outlive(&m)
	return m
}

// undo makes sure that an answered write has no effect. It purges the key if isOwn
// reports that the key holds this write, and that the peer does not want it.
//
// A write with unknown outcome could take effect later. So undo purges its key at the
// same expected revision: either the purge wins the compare-and-swap, or the conflict
// says what did. If the view was built anew since the write was sent, the revision
// means nothing any more, and undo only examines what the new view shows.
func (w *write) undo(a Ack, isOwn func(entry.Key) bool) {
	key := w.msg.Key
	switch {
	case w.view != w.p.view:
		w.p.writes.purgeOwnAt(0, key, isOwn)
	case a.Outcome == Written, a.Outcome == Conflict:
		w.p.writes.purgeOwnAt(a.Revision, key, isOwn)
	case a.Outcome == Unknown:
		w.p.writes.releaseAs(w.fence(), func(a Ack) {
			if a.Outcome == Conflict {
				w.p.writes.purgeOwnAt(a.Revision, key, isOwn)
			}
		})
	}
}

// purgeOwnAt calls purgeOwn when the view is live and has reached a revision.
func (ws *writes) purgeOwnAt(revision uint64, key entry.Key, isOwn func(entry.Key) bool) {
	ws.p.reads.whenReached(revision, func() { ws.purgeOwn(key, isOwn) })
}

// purgeOwn purges a key if isOwn reports true.
func (ws *writes) purgeOwn(key entry.Key, isOwn func(entry.Key) bool) {
	if revision, taken := ws.p.view.Latest(key); taken && isOwn(key) {
		ws.release(key, revision, nil)
	}
}
