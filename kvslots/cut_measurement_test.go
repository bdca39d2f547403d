//go:build unix

package kvslots

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// measurement is what one fault was to one store.
type measurement struct {
	fault       string
	at          time.Time
	there       bool          // whether the store was connected to the server that the fault met
	nats        time.Duration // the longest time without an answer of NATS
	meta        time.Duration // the longest time without an answer of the meta leader
	outage      time.Duration // the longest time without a grant
	behind      time.Duration // the longest time without a grant while NATS answered writes
	behindAll   time.Duration // the same while the meta leader answered, too
	afterEnd    time.Duration // from the end of the fault to the next grant
	reconnects  uint64
	unavailable int // calls at all stores
}

type beforeFault struct {
	servers     []string
	reconnects  []uint64
	unavailable int
}

func (s *cutSoak) before() (b beforeFault) {
	for _, store := range s.stores {
		b.servers = append(b.servers, store.nc.ConnectedServerName())
		b.reconnects = append(b.reconnects, store.nc.Stats().Reconnects)
	}
	b.unavailable = s.unavailable()
	return b
}

func (s *cutSoak) unavailable() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for what, times := range s.failures {
		if strings.HasSuffix(what, ErrUnavailable.Error()) {
			n += times
		}
	}
	return n
}

func (s *cutSoak) measure(f serverFault, before beforeFault, began, end time.Time, leader, follower int) {
	met := []string{s.cluster.Servers[leader].Name()}
	switch {
	case strings.HasPrefix(f.name, "follower"):
		met[0] = s.cluster.Servers[follower].Name()
	case f.name == "all killed":
		met = before.servers
	}
	now := time.Now()
	var meta []*instants // a meta leader that is cut off goes on answering
	for n := range s.meta {
		if len(met) > 1 || met[0] != s.cluster.Servers[n].Name() {
			meta = append(meta, &s.meta[n])
		}
	}
	away, headless := s.nats.gaps(began, now, natsGap), merged(meta).gaps(began, now, natsGap)
	for i, store := range s.stores {
		gaps := store.grants.gaps(began, now, grantGap)
		m := measurement{
			fault: f.name, at: began, there: slices.Contains(met, before.servers[i]),
			nats: longest(away), meta: longest(headless), outage: longest(gaps), behind: behind(gaps, away), behindAll: behind(gaps, union(away, headless)),
			reconnects: store.nc.Stats().Reconnects - before.reconnects[i], unavailable: s.unavailable() - before.unavailable,
		}
		at, ok := store.grants.after(end)
		if m.afterEnd = at.Sub(end); !ok {
			m.afterEnd = now.Sub(end)
		}
		if soaking && m.afterEnd > maxOutage {
			s.t.Errorf("%s granted nothing for %v after %q ended at %s", store.name, m.afterEnd, f.name, timeOfDay(end))
		}
		s.measured = append(s.measured, m)
		s.t.Logf("%s %-20s %4.1fs %s at %s (met: %-5v): NATS away %5.2fs, meta %5.2fs, outage %5.2fs, behind %5.2fs, both %5.2fs, after end %5.2fs, reconnects %d, unavailable %d",
			timeOfDay(began), f.name, end.Sub(began).Seconds(), store.name, before.servers[i], m.there, m.nats.Seconds(), m.meta.Seconds(), m.outage.Seconds(),
			m.behind.Seconds(), m.behindAll.Seconds(), m.afterEnd.Seconds(), m.reconnects, m.unavailable)
	}
}

func timeOfDay(t time.Time) string { return t.Format("15:04:05.000") }

// report logs what was measured for each fault.
func (s *cutSoak) report() {
	t := s.t
	leases, _ := s.ledger.Check()
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Logf("%d leases; calls %v; failures %v; longest beyond their waits %v", leases, s.calls, s.failures, s.slowest)
	for i, store := range s.stores {
		t.Logf("%s is at %s after %d reconnects, and had %+v", store.name, store.nc.ConnectedServerName(), store.nc.Stats().Reconnects, counters(s.stores[i].Store))
	}
	byName := map[string][]measurement{}
	for _, m := range s.measured {
		there := "elsewhere"
		if m.there {
			there = "at the server"
		}
		for _, name := range []string{m.fault, there, "all"} {
			byName[name] = append(byName[name], m)
		}
		byName[m.fault+", "+there] = append(byName[m.fault+", "+there], m)
	}
	names := make([]string, 0, len(byName))
	for name := range byName {
		names = append(names, name)
	}
	slices.Sort(names)
	t.Logf("%-36s %5s | %11s | %11s | %11s | %11s | %11s | %11s | %11s | %s", "median/max in s", "n", "NATS away", "no meta", "outage", "behind NATS", "behind both", "after end", "unavailable", "behind both > 0.35 s, > 1 s, > 3 s")
	for _, name := range names {
		s.row(name, byName[name])
	}
}

func (s *cutSoak) row(name string, list []measurement) {
	var columns []string
	for _, of := range []func(measurement) time.Duration{
		func(m measurement) time.Duration { return m.nats },
		func(m measurement) time.Duration { return m.meta },
		func(m measurement) time.Duration { return m.outage },
		func(m measurement) time.Duration { return m.behind },
		func(m measurement) time.Duration { return m.behindAll },
		func(m measurement) time.Duration { return m.afterEnd },
		func(m measurement) time.Duration { return time.Duration(m.unavailable) * time.Second },
	} {
		var all []time.Duration
		for _, m := range list {
			all = append(all, of(m))
		}
		slices.Sort(all)
		columns = append(columns, fmt.Sprintf("%5.2f %5.2f", all[len(all)/2].Seconds(), all[len(all)-1].Seconds()))
	}
	var late [3]int
	for _, m := range list {
		for i, limit := range []time.Duration{350 * time.Millisecond, time.Second, 3 * time.Second} {
			if m.behindAll > limit {
				late[i]++
			}
		}
	}
	s.t.Logf("%-36s %5d | %s | %v", name, len(list), strings.Join(columns, " | "), late)
}
