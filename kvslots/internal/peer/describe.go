package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/rules"
	"github.com/kvslots/kvslots/kvslots/reads"
)

// idleTime is the time after which an idle name is closed.
const idleTime = time.Minute

func statsOf(p *rules.Pool, now Instant) PoolStats {
	return PoolStats{
		Pool: p.ID, Title: p.Config.Title, Terms: p.Terms(), State: reads.NewState(p.Size(), p.InUse(), p.Waiting(), p.Out()),
		OldestWait: oldestWait(p, now), Expired: p.Expired(now), Out: p.Config.Out,
	}
}

// refusalOf describes the pool of a borrow that was granted nothing.
func refusalOf(p *rules.Pool, place int, now Instant) *Refusal {
	r := &Refusal{Place: place, Terms: p.Terms()}
	if out, is := p.OutOfService(); is {
		r.Paused, r.Reason = true, out.Reason
	}
	if p.Exists() {
		for s := range p.Slots {
			if s.Live() {
				r.Label, r.Age = s.Label(), max(0, now.Sub(s.Granted))
				break
			}
		}
	}
	return r
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
