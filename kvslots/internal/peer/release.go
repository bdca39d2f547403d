package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// unseenLife is how much later than the view's time a message may have been written
// at most that the view has not seen.
const unseenLife = 20 * time.Second

// release is a purge that no caller waits for. It is repeated until the key is
// known to be purged or to have changed.
type release struct {
	msg  entry.Message
	done func(Ack) // nil: nothing is to be done then
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

// purge is the message that frees a key. Its marker outlives every earlier value
// of the key.
func (p *Peer) purge(key entry.Key, revision uint64) entry.Message {
	m := entry.NewPurge(key, revision, rules.MarkerTTL)
	p.view.Outlive(&m)
	return m
}

// purgeOf is the message that frees a key on which this peer has put a message that
// the view need not have seen: its marker outlives that as well.
func (p *Peer) purgeOf(w *entry.Message, revision uint64) entry.Message {
	m := p.purge(w.Key, revision)
	m.TTL = max(m.TTL, w.TTL+unseenLife)
	m.Outlives = max(m.Outlives, p.view.Time.Add(w.TTL+unseenLife).UnixMilli())
	return m
}

// value is the message that puts a value under a key. It outlives every earlier
// value of the key. ttl is how long the value means anything.
func (p *Peer) value(key entry.Key, v any, revision uint64, ttl time.Duration) entry.Message {
	m := entry.NewMessage(key, v, revision, ttl+rules.Guard)
	p.view.Outlive(&m)
	return m
}

// undo sees to it that a write which was answered so has no effect. What it has
// written is purged, if it is mine: this peer's own, and not wanted.
//
// A write with unknown outcome could take effect later. So its key is purged at the
// same expected revision. Either the purge wins the compare-and-swap, or the conflict
// says what did. If the view is another one than the write was decided from, its
// revision means nothing any more, and only what stands there is looked at.
func (w *write) undo(a Ack, mine func(entry.Key) bool) {
	key := w.msg.Key
	switch {
	case w.view != w.p.view:
		w.p.disownAt(0, key, mine)
	case a.Outcome == Written, a.Outcome == Conflict:
		w.p.disownAt(a.Revision, key, mine)
	case a.Outcome == Unknown:
		w.p.releaseAs(w.p.purgeOf(&w.msg, w.msg.Revision), func(a Ack) {
			if a.Outcome == Conflict {
				w.p.disownAt(a.Revision, key, mine)
			}
		})
	}
}

// disownAt disowns a key when the view is live and has reached a revision.
func (p *Peer) disownAt(revision uint64, key entry.Key, mine func(entry.Key) bool) {
	p.whenReached(revision, func() { p.disown(key, mine) })
}

// disown purges what stands under a key if it is this peer's own.
func (p *Peer) disown(key entry.Key, mine func(entry.Key) bool) {
	if revision, taken := p.view.Stands(key); taken && mine(key) {
		p.release(key, revision, nil)
	}
}
