package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

const (
	// witnessTime is how long a peer that has loaded its view waits for a sign of
	// life from another peer, before it ends leases by the leader's clock.
	witnessTime = presenceRefresh + time.Second

	// skew is how much later leases end that were loaded from a replicated stream:
	// their timestamps may be of another leader's clock.
	skew = 5 * time.Second
)

// newView begins an empty view. The presence stays: loading shows its tickets, and so
// the places of this peer's borrows in the lines.
func (f *keeper) newView() {
	v, cfg := rules.New(), f.settings()
	v.TracksIdle = cfg.PoolIdle > 0
	v.MaxPlaces, v.MaxPlacesPerOrigin = cfg.MaxPlaces, cfg.MaxPlacesPerOrigin
	f.setView(v)
	f.mode = loading
	f.check = check{}
	f.presence.revision = 0
	untold := f.restartReads()
	f.host.restart()
	f.dropWrites(untold)
}

// ageOf returns how long ago a loaded entry was written.
func (f *keeper) ageOf(e *entry.Entry) time.Duration {
	return max(0, f.leaderTime.Sub(e.Time)) + f.now().Sub(f.beganAt)
}

// loaded sets the ends of sessions and leases when the view is loaded.
func (f *keeper) loaded() {
	f.ends = nil
	f.view().Postpone(f.now())
	if f.settings().Sole && f.rebuilt == 0 {
		f.view().EndOthers(f.self(), f.now())
	} else {
		f.witnessUntil = f.now().Add(witnessTime)
		slack := time.Duration(0)
		if f.settings().Replicated {
			slack = skew
		}
		f.view().HoldBack(f.witnessUntil, slack)
	}
	f.log(Debug, "view loaded", "")
}

// timeLeft returns how much of a lease's time may be left. Until another peer is heard, the
// leader's clock alone says how old a loaded lease is, and it may have been stepped: all of its time.
func (f *keeper) timeLeft(s *rules.Slot) time.Duration {
	if f.now() < f.witnessUntil && s.Revision <= f.began {
		return s.Value.TTL.Duration()
	}
	return s.Left(f.now())
}

// rebuild drops the view and builds it anew. It keeps the ends of leases, which this peer
// knows better than the stream.
func (f *keeper) rebuild(why string) {
	f.rebuilt = max(f.now(), 1)
	f.count().Rebuilds++
	f.log(Warn, "view built anew", why)
	f.keepEnds()
	f.named = 0
	f.disarm(&f.overdue)
	f.newView()
	f.order(0)
}

func (f *keeper) keepEnds() {
	for pool := range f.view().EachPool {
		for s := range pool.Slots {
			if s.Value.TTL > 0 {
				put(&f.ends, s.Value.Lease, max(f.ends[s.Value.Lease], s.Ends))
			}
		}
	}
}

// heardOther handles a sign of life from another peer. If this peer has just loaded its
// view, it restarts the ttl of the loaded leases: the leader's clock may have been stepped
// since they were written, and the other peer knows better when they end.
func (f *keeper) heardOther(e *entry.Entry) {
	if f.mode == loading || f.now() >= f.witnessUntil || e.Marker || e.Session.Kind != entry.SessionPeer || e.Key == f.selfKey() {
		return
	}
	f.witnessUntil = 0
	f.view().CountAnew(f.began, f.now())
}
