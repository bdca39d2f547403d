package sim

import "time"

// shrink simplifies a failing plan as long as the same check fails. It removes faults,
// nodes, clients and time, one at a time, and tries each simpler plan under several
// seeds, until the deadline.
func shrink(p Plan, check string, deadline time.Time) Plan {
	failure := func(p Plan) *Failure {
		if f := Run(p, Options{}).Failure; f != nil && f.Check == check {
			return f
		}
		return nil
	}
	fails := func(p Plan) (Plan, bool) {
		for offset := range uint64(10) {
			if time.Now().After(deadline) {
				return p, false
			}
			try := p
			try.Seed += offset * 1_000_003
			if f := failure(try); f != nil {
				shorter := try
				shorter.Length = min(try.Length, f.At+time.Second) // a run of another length is another run
				if shorter == try || failure(shorter) != nil {
					return shorter, true
				}
				return try, true
			}
		}
		return p, false
	}
	for again := true; again; {
		again = false
		for _, smaller := range p.smaller() {
			if found, ok := fails(smaller); ok {
				p, again = found, true
				break
			}
		}
	}
	return p
}

// smaller returns plans that are a little simpler, the simplest first.
func (p Plan) smaller() (all []Plan) {
	try := func(change func(*Plan)) {
		q := p
		if change(&q); q != p {
			all = append(all, q)
		}
	}
	try(func(q *Plan) { q.Length /= 2 })
	try(func(q *Plan) { q.Clients.Owned, q.Clients.OwnedNames = 0, min(q.Clients.OwnedNames, 1) })
	try(func(q *Plan) { q.Clients.Session = 0 })
	try(func(q *Plan) { q.Clients.Pool, q.Clients.Pools = 0, 0 })
	try(func(q *Plan) { q.Caps = CapPlan{} })
	for f := range p.Faults {
		try(func(q *Plan) { q.Faults[f] = 0 })
	}
	for _, change := range []func(*Plan){
		func(q *Plan) { q.Net.LoseWrite = 0 }, func(q *Plan) { q.Net.LoseLeave = 0 }, func(q *Plan) { q.Net.LoseAck = 0 }, func(q *Plan) { q.Net.LateAck = 0 },
		func(q *Plan) { q.Net.Never = 0 }, func(q *Plan) { q.Net.Unknown = 0 },
		func(q *Plan) { q.Feed.Lose = 0 }, func(q *Plan) { q.Feed.Unpublished = 0 }, func(q *Plan) { q.Feed.Repeated = 0 },
		func(q *Plan) { q.Feed.TwoAnswers = 0 }, func(q *Plan) { q.Feed.Buffer = 0 }, func(q *Plan) { q.Feed.Behind = 0 },
		func(q *Plan) { q.Net.Full = 0 }, func(q *Plan) { q.Flush.Fails = 0 }, func(q *Plan) { q.Flush = FlushPlan{} }, func(q *Plan) { q.Net.Spikes = 0 }, func(q *Plan) { q.Net.Lag = 0 },
		func(q *Plan) { q.Clients.Fresh = 0 }, func(q *Plan) { q.Clients.Quiet = 0 }, func(q *Plan) { q.Clients.Together = 0 },
		func(q *Plan) { q.Clients.Administer = 0 }, func(q *Plan) { q.Clients.Mismatch = 0 }, func(q *Plan) { q.Clients.Once = 0 },
		func(q *Plan) { q.Traps = false },
		func(q *Plan) { q.Nodes = max(1, q.Nodes-1) },
		func(q *Plan) { q.Clients.Pool = max(min(1, q.Clients.Pool), q.Clients.Pool/2) },
		func(q *Plan) { q.Clients.Session = max(min(1, q.Clients.Session), q.Clients.Session/2) },
		func(q *Plan) { q.Clients.Owned = max(min(1, q.Clients.Owned), q.Clients.Owned/2) },
		func(q *Plan) { q.Clients.Pools = max(min(1, q.Clients.Pools), q.Clients.Pools-1) },
		func(q *Plan) { q.Clients.Names = max(min(1, q.Clients.Names), q.Clients.Names-1) },
		func(q *Plan) { q.Clients.Count = max(min(1, q.Clients.Count), q.Clients.Count-1) },
		func(q *Plan) { q.Length = q.Length * 3 / 4 },
	} {
		try(change)
	}
	return all
}
