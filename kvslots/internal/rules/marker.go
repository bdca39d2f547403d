package rules

import (
	"container/heap"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// life is how long a key's last record, and those before it, may be found in the
// bucket.
type life struct {
	revision  uint64    // of the record
	revivable time.Time // see entry.Entry.Revivable
	gone      time.Time // of a marker: when the bucket has surely dropped it
}

func lifeOf(e entry.Entry) life {
	return life{revision: e.Revision, revivable: e.Revivable(), gone: e.Expires().Add(entry.MarkerSlack)}
}

// Revivable is until when a record of a key, the one at that revision or an
// earlier one, may be read as a value after an unclean stop of the server. known
// is false when the view has not seen that revision, or holds it no more; the
// time is then that of the record which it holds instead, if any.
func (w *World) Revivable(key entry.Key, revision uint64) (until time.Time, known bool) {
	l := w.lifeAt(key)
	return l.revivable, l.revision == revision
}

func (w *World) lifeAt(key entry.Key) life {
	if key.Kind == entry.Session {
		if s := w.sessions[key.Session]; s != nil {
			return s.life
		}
		return life{}
	}
	p := w.pools[key.Pool]
	if p == nil {
		return life{}
	}
	switch key.Kind {
	case entry.Config:
		return p.configLife
	case entry.Slot:
		if s := p.Slot(key.N); s != nil {
			return s.life
		}
	case entry.Ticket:
		if t := p.line.byKey[key]; t != nil {
			return t.life
		}
	}
	return life{}
}

// marker is something to be forgotten when its marker has gone from the bucket.
type marker struct {
	pool *Pool
	slot *Slot // nil: the pool itself
	at   time.Time
}

// markers is a queue of markers, the first to go at its head.
type markers []marker

func (q markers) Len() int           { return len(q) }
func (q markers) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q markers) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *markers) Push(x any)        { *q = append(*q, x.(marker)) }

func (q *markers) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = marker{}
	*q = old[:len(old)-1]
	return last
}

// expect queues a slot, or a pool, to be forgotten at a time of the stream. Each
// stands in the queue once, however many markers it gets: the later ones are
// looked at when the first one's time has come.
func (w *World) expect(p *Pool, s *Slot, at time.Time) {
	queued := &p.queued
	if s != nil {
		queued = &s.queued
	}
	if !*queued {
		*queued = true
		heap.Push(&w.markers, marker{p, s, at})
	}
}

// forget drops the keys whose markers have gone from the bucket by now: their
// last revision is 0 again, and a pool without a key is no pool.
func (w *World) forget() {
	for len(w.endings) > 0 && w.Time.Sub(w.endings[0].at) > MarkerTTL {
		delete(w.ended, w.endings[0].session)
		w.endings = w.endings[1:]
	}
	for len(w.markers) > 0 && w.Time.After(w.markers[0].at) {
		m := heap.Pop(&w.markers).(marker)
		if m.slot != nil {
			w.forgetSlot(m.slot)
		} else {
			w.forgetConfig(m.pool)
		}
		if m.pool.empty() && w.pools[m.pool.ID] == m.pool { // not another that came after it
			delete(w.pools, m.pool.ID)
		}
	}
}

func (w *World) forgetSlot(s *Slot) {
	s.queued = false
	switch {
	case s.Taken || s.Revision == 0:
	case w.Time.After(s.life.gone):
		s.Revision, s.life = 0, life{}
	default:
		w.expect(s.Pool, s, s.life.gone) // it has got another marker since
	}
}

func (w *World) forgetConfig(p *Pool) {
	p.queued = false
	switch {
	case p.configSet || p.ConfigRevision == 0:
	case w.Time.After(p.configLife.gone):
		p.ConfigRevision, p.configLife = 0, life{}
	default:
		w.expect(p, nil, p.configLife.gone)
	}
}

// Absent notes what the server said: that the key of a slot which the view
// holds for a marker, or for absent, has that last revision.
func (w *World) Absent(s *Slot, revision uint64) {
	if !s.Taken && revision <= w.Revision {
		s.Revision = revision
	}
}

// AbsentConfig notes what the server said: that a pool's configuration, which
// the view holds for a marker, is absent.
func (w *World) AbsentConfig(p *Pool) {
	if !p.configSet {
		p.ConfigRevision = 0
	}
}
