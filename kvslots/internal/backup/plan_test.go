package backup

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

var (
	start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	pool  = entry.HashOf("pool", "a")
	named = entry.HashOf("pool", "b")
)

// hold is a backup of a pool, a lock and sessions, written at start.
func hold(slots map[int]entry.SlotValue, config entry.ConfigValue, sessions ...entry.SessionValue) *Backup {
	b := &Backup{Header: Header{Format: entry.Format, Time: start, Revision: 100}}
	add := func(key entry.Key, value any) {
		data, err := json.Marshal(value)
		if err != nil {
			panic(err)
		}
		b.Entries = append(b.Entries, Entry{key.String(), uint64(len(b.Entries) + 1), start, data})
	}
	id := pool
	if config.Named() {
		id = named
	}
	add(entry.Key{Kind: entry.Config, Pool: id}, config)
	for i, s := range sessions {
		add(rules.SessionKey(session(i)), s)
	}
	for n := range 10 {
		if s, ok := slots[n]; ok {
			add(rules.SlotKey(id, n), s)
		}
	}
	return b
}

func session(i int) entry.Hash { return entry.HashOf("session", string(rune('a'+i))) }

func slot(lease string, ttl time.Duration) entry.SlotValue {
	return entry.SlotValue{Lease: entry.HashOf("lease", lease), Claimer: entry.HashOf("peer", "p"), Generation: 7, TTL: entry.Span(ttl)}
}

func TestPlan(t *testing.T) {
	registered := entry.ConfigValue{Count: 3, Generation: 7}
	lock := entry.ConfigValue{Count: 1, Generation: 7, Terms: entry.Terms{Name: "b", Dialect: "d", Lock: true, Limit: 1}}
	closing := lock
	closing.Count = 0
	other := slot("x", time.Hour)
	other.Generation = 8
	held := slot("x", 10*time.Second)
	held.Session = session(0)
	client := entry.SessionValue{Kind: entry.SessionClient, Idle: entry.Span(time.Minute)}
	two := slot("x", time.Hour)
	for _, c := range []struct {
		name  string
		b     *Backup
		after time.Duration
		want  Summary
	}{
		{"a lease", hold(map[int]entry.SlotValue{0: slot("x", time.Minute)}, registered), 30 * time.Second, Summary{Pools: 1, Leases: 1}},
		{"within the slack", hold(map[int]entry.SlotValue{0: slot("x", time.Minute)}, registered), time.Minute + rules.Slack/2, Summary{Pools: 1, Leases: 1}},
		{"over", hold(map[int]entry.SlotValue{0: slot("x", time.Minute), 2: slot("y", time.Hour)}, registered), 2 * time.Minute, Summary{Pools: 1, Leases: 1, Expired: 1}},
		{"another generation", hold(map[int]entry.SlotValue{0: other}, registered), 0, Summary{Pools: 1}},
		{"two claims for one lease", hold(map[int]entry.SlotValue{0: two, 1: two}, registered), 0, Summary{Pools: 1, Leases: 1}},
		{"a session", hold(map[int]entry.SlotValue{0: held}, lock, client), 0, Summary{Pools: 1, Leases: 1, Sessions: 1}},
		{"a lease that outlasts its session", hold(map[int]entry.SlotValue{0: func() entry.SlotValue { v := held; v.TTL = entry.Span(time.Hour); return v }()}, lock, client),
			30 * time.Minute, Summary{Pools: 1, Leases: 1, Sessions: 1}},
		{"an idle session", hold(map[int]entry.SlotValue{0: held}, lock, client, client), 2 * time.Minute, Summary{Expired: 1}},
		{"a session without a lease", hold(nil, registered, client), 30 * time.Second, Summary{Pools: 1, Sessions: 1}},
		{"without its session", hold(map[int]entry.SlotValue{0: held}, lock), 0, Summary{}},
		{"an unused name", hold(nil, lock), 0, Summary{}},
		{"a name that is being closed", hold(map[int]entry.SlotValue{0: slot("x", time.Hour)}, closing), 0, Summary{Pools: 1, Leases: 1}},
		{"a pool without slots", hold(nil, entry.ConfigValue{Generation: 7}), 0, Summary{Pools: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlan(c.b, start.Add(c.after))
			if p.Summary != c.want || len(p.leases) != c.want.Leases || len(p.untimed) != c.want.Pools+c.want.Sessions {
				t.Errorf("got %+v, want %+v", p.Summary, c.want)
			}
		})
	}
}

// A lease is written with the rest of its time, under its first fence.
func TestLeaseMessage(t *testing.T) {
	renewed := slot("y", time.Minute)
	renewed.Fence = 1
	p := newPlan(hold(map[int]entry.SlotValue{4: slot("x", time.Minute), 5: renewed}, entry.ConfigValue{Count: 1, Generation: 7}), start.Add(20*time.Second))
	for i, fence := range []uint64{2, 1} {
		m, live := p.leases[i].message(10 * time.Second)
		e := entry.Parse(m.Key.String(), 200, start, func(string) string { return "" }, m.Data)
		if !live || e.Corrupt != nil || e.Slot.Fence != fence || e.Slot.TTL.Duration() != 30*time.Second || m.TTL != 30*time.Second+rules.Guard {
			t.Errorf("got %+v, %v", e.Slot, m)
		}
	}
	if _, live := p.leases[0].message(40*time.Second + rules.Slack); live {
		t.Error("written after its end")
	}
	m, live := p.leases[0].message(40*time.Second + rules.Slack/2)
	e := entry.Parse(m.Key.String(), 200, start, func(string) string { return "" }, m.Data)
	if !live || e.Slot.TTL.Duration() != time.Millisecond {
		t.Errorf("within the slack: %+v, %v", e.Slot, live)
	}
}

// A plan of many pools takes a time in proportion to them: no pool is left to be settled
// again with each later entry.
func TestLoadSettlesEachPoolOnce(t *testing.T) {
	b := &Backup{}
	for i := range uint64(10) {
		b.Entries = append(b.Entries, Entry{Key: fmt.Sprintf("p.%032x.cfg", i), Revision: i + 1, Time: time.Now(), Value: []byte(`{"count":1,"gen":1}`)})
	}
	view, entries := load(b, time.Now())
	if n := len(view.Touched()); n > 0 || len(entries) != len(b.Entries) || !view.Pool(entries[9].Key.Pool).Exists() {
		t.Errorf("%d pools of %d entries are left", n, len(entries))
	}
}
