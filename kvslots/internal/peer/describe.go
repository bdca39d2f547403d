package peer

import (
	"encoding/binary"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
	"github.com/kvslots/kvslots/kvslots/reads"
)

// idleTime is the time after which an idle name is closed.
const idleTime = time.Minute

func poolOf(p *rules.Pool, now Instant) reads.Pool {
	t, out := p.Terms(), p.Config.Out
	x := reads.Pool{
		Hash: p.ID, Type: typeOf(t), Name: p.Config.Title, Key: t.Name, Dialect: t.Dialect,
		State: reads.NewState(p.Size(), p.InUse(), p.Waiting(), p.Out()), OldestWait: oldestWait(p, now), Expired: p.Expired(now), Out: len(out),
	}
	if p.Config.Paused() {
		x.Out, x.Paused, x.PauseReason = len(out)-1, true, out[0].Reason
	}
	return x
}

func typeOf(t entry.Terms) string {
	switch {
	case !t.Named():
		return reads.TypePool
	case t.Lock:
		return reads.TypeLock
	}
	return reads.TypeSemaphore
}

// detailOf returns a pool without its leases and its line.
func detailOf(p *rules.Pool, now Instant) *reads.Detail {
	d := &reads.Detail{Pool: poolOf(p, now), OutOfService: []reads.OutOfService{}}
	for _, out := range p.Config.Out {
		if out.Position != entry.WholePool {
			d.OutOfService = append(d.OutOfService, reads.OutOfService(out))
		}
	}
	return d
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

func oldestWait(pool *rules.Pool, now Instant) reads.Duration {
	for _, t := range pool.Line {
		return reads.Duration(max(0, now.Sub(t.Seen)))
	}
	return 0
}

func holderOf(s *rules.Slot, now Instant) reads.Holder {
	owner := s.Value.Session
	if s.Value.Owner != "" {
		owner = entry.HashOf(entry.OfOwner, s.Value.Owner)
	}
	return reads.Holder{
		Position: s.Position, Label: s.Label(), Fence: s.Fence, Age: reads.Duration(max(0, now.Sub(s.Granted))),
		ExpiresIn: reads.Duration(max(0, s.Ends.Sub(now))), Owner: ownerNumber(owner), OwnerName: s.Value.Owner,
	}
}

func waiterOf(t *rules.Ticket, place int, now Instant) reads.Waiter {
	return reads.Waiter{
		Place: place, Label: t.Label(), Waited: reads.Duration(max(0, now.Sub(t.Seen))), Owner: ownerNumber(t.Holder()), Away: t.Absent(),
	}
}

// ownerNumber returns the first 53 bits of the hash of a session or an owner, which is not
// secret.
func ownerNumber(hash entry.Hash) uint64 { return binary.BigEndian.Uint64(hash[:8]) >> 11 }
