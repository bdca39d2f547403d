package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

const (
	// witnessTime is how long a peer that has loaded its view waits for a sign of
	// life of another peer, before it ends leases by the leader's clock.
	witnessTime = presenceRefresh + time.Second

	// skew is how much later leases end that were loaded from a replicated stream:
	// their timestamps may be of another leader's clock.
	skew = 5 * time.Second
)

// newView begins an empty view. The presence stays: loading shows its tickets, and so
// the places of this peer's borrows in the lines.
func (k *kernel) newView() {
	k.view = rules.New()
	k.view.TracksIdle = k.cfg.PoolIdle > 0
	k.view.MaxPlaces, k.view.MaxPlacesPerOrigin = k.cfg.MaxPlaces, k.cfg.MaxPlacesPerOrigin
	k.feed.mode = loading
	k.feed.check = check{}
	k.self.revision = 0
	k.reads.restart()
	k.above.restart()
	k.writes.sendAgain() // ends the writes that were sent under the previous view
}

// Loading reports whether the view is being loaded. If the caller gives up the reading then,
// the load begins anew, so it must be patient: a large bucket takes long on a slow machine.
func (k *kernel) Loading() bool { return k.feed.mode == loading }

// View returns the view, for simulations, which compare it with the stream.
func (k *kernel) View() *rules.View { return k.view }

// ageOf returns how long ago a loaded entry was written.
func (f *feed) ageOf(e *entry.Entry) time.Duration {
	return max(0, f.leaderTime.Sub(e.Time)) + f.k.now.Sub(f.beganAt)
}

// loaded sets the ends of sessions and leases when the view is loaded.
func (f *feed) loaded() {
	f.ends = nil
	f.k.view.Postpone(f.k.now)
	if f.k.cfg.Sole && f.rebuilt == 0 {
		f.k.view.EndOthers(f.k.self.id, f.k.now)
	} else {
		f.witnessUntil = f.k.now.Add(witnessTime)
		slack := time.Duration(0)
		if f.k.cfg.Replicated {
			slack = skew
		}
		f.k.view.HoldBack(f.witnessUntil, slack)
	}
	f.k.log(Debug, "view loaded", "")
}

// timeLeft returns how much of a lease's time may be left. Until another peer is heard, the
// leader's clock alone says how old a loaded lease is, and it may have been stepped: all of its time.
func (f *feed) timeLeft(s *rules.Slot) time.Duration {
	if f.k.now < f.witnessUntil && s.Revision <= f.began {
		return s.Value.TTL.Duration()
	}
	return s.Left(f.k.now)
}

// rebuild drops the view and builds it anew. It keeps the ends of leases, which this peer
// knows better than the stream.
func (f *feed) rebuild(why string) {
	f.rebuilt = max(f.k.now, 1)
	f.k.counters.Rebuilds++
	f.k.log(Warn, "view built anew", why)
	f.keepEnds()
	f.named = 0
	f.k.timers.stop(&f.overdue)
	f.k.newView()
	f.order(0)
}

func (f *feed) keepEnds() {
	for pool := range f.k.view.EachPool {
		for s := range pool.Slots {
			if s.Value.TTL > 0 {
				put(&f.ends, s.Value.Lease, max(f.ends[s.Value.Lease], s.Ends))
			}
		}
	}
}

// heardOther handles a sign of life of another peer. If this peer has just loaded its
// view, it restarts the ttl of the loaded leases: the leader's clock may have been stepped
// since they were written, and the other peer knows better when they end.
func (f *feed) heardOther(e *entry.Entry) {
	if f.mode == loading || f.k.now >= f.witnessUntil || e.Marker || e.Session.Kind != entry.SessionPeer || e.Key == f.k.self.key() {
		return
	}
	f.witnessUntil = 0
	f.k.view.CountAnew(f.began, f.k.now)
}
