package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// idleTime is the time after which an idle name is closed.
const idleTime = time.Minute

func stateOf(p *rules.Pool) State { return State{p.Size(), p.InUse(), p.Waiting(), p.Out()} }

func statsOf(p *rules.Pool, now Instant) PoolStats {
	return PoolStats{
		Pool: p.ID, Title: p.Config.Title, Terms: p.Terms(), State: stateOf(p), OldestWait: oldestWait(p, now),
		Expired: p.Expired(now), Out: p.Config.Out,
	}
}

func oldestWait(pool *rules.Pool, now Instant) time.Duration {
	for _, t := range pool.Line {
		return max(0, now.Sub(t.Seen))
	}
	return 0
}

func holderOf(s *rules.Slot, now Instant) HolderStats {
	return HolderStats{
		Session: s.Value.Session, Owner: s.Value.Owner, Position: s.Position, Fence: s.Fence,
		Age: max(0, now.Sub(s.Granted)), EndsIn: max(0, s.Ends.Sub(now)), Label: s.Label(),
	}
}

func waiterOf(t *rules.Ticket, place int, now Instant) WaiterStats {
	return WaiterStats{Session: t.Holder(), Place: place, Waited: max(0, now.Sub(t.Seen)), Label: t.Label(), Away: t.Absent()}
}
