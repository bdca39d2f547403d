package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// unseenLife is how much later than the view's time the peer may have written a message
// that the view does not show yet.
const unseenLife = 20 * time.Second

// release is a purge that no caller waits for. The peer repeats it until the key is
// purged or has changed.
type release struct {
	msg  entry.Message
	done func(Ack) // may be nil
}

// release purges a key at a revision.
func (p *Peer) release(key entry.Key, revision uint64, done func(Ack)) {
	p.releaseAs(p.purge(key, revision), done)
}

func (p *Peer) releaseAs(m entry.Message, done func(Ack)) {
	if p.writes.releasing >= maxReleasing {
		p.writes.backlog = append(p.writes.backlog, release{m, done})
		return
	}
	p.writes.releasing++
	view := p.view
	p.send(m, func(a Ack) {
		p.writes.releasing--
		if a.Outcome == Unknown && p.view == view {
			p.releaseAs(m, done)
		} else if done != nil {
			done(a)
		}
		p.writes.releaseNext()
	})
}

func (ws *writes) releaseNext() {
	for len(ws.backlog) > 0 && ws.releasing < maxReleasing {
		next := ws.backlog[0]
		ws.backlog[0] = release{}
		ws.backlog = ws.backlog[1:]
		ws.p.releaseAs(next.msg, next.done)
	}
}

// purge returns the message that frees a key. Its marker outlives every earlier value
// of the key.
func (p *Peer) purge(key entry.Key, revision uint64) entry.Message {
	m := entry.NewPurge(key, revision, rules.MarkerTTL)
	p.view.Outlive(&m)
	return m
}

// purgeOf returns the message that frees the key of w, a message of this peer that the
// view need not show yet. The marker outlives w as well.
func (p *Peer) purgeOf(w *entry.Message, revision uint64) entry.Message {
	m := p.purge(w.Key, revision)
	m.TTL = max(m.TTL, w.TTL+unseenLife)
	m.Outlives = max(m.Outlives, p.view.Time.Add(w.TTL+unseenLife).UnixMilli())
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
		w.p.purgeOwnAt(0, key, isOwn)
	case a.Outcome == Written, a.Outcome == Conflict:
		w.p.purgeOwnAt(a.Revision, key, isOwn)
	case a.Outcome == Unknown:
		w.p.releaseAs(w.p.purgeOf(&w.msg, w.msg.Revision), func(a Ack) {
			if a.Outcome == Conflict {
				w.p.purgeOwnAt(a.Revision, key, isOwn)
			}
		})
	}
}

// purgeOwnAt calls purgeOwn when the view is live and has reached a revision.
func (p *Peer) purgeOwnAt(revision uint64, key entry.Key, isOwn func(entry.Key) bool) {
	p.whenReached(revision, func() { p.purgeOwn(key, isOwn) })
}

// purgeOwn purges a key if isOwn reports true.
func (p *Peer) purgeOwn(key entry.Key, isOwn func(entry.Key) bool) {
	if revision, taken := p.view.Stands(key); taken && isOwn(key) {
		p.release(key, revision, nil)
	}
}
