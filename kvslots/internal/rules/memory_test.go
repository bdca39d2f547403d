package rules

import (
	"runtime"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// A view's memory never shrank: it kept 320 bytes for every slot that was ever used,
// and every pool.
func TestFault15ViewForgetsWhatIsGone(t *testing.T) {
	const pools, slots = 100, 1000
	v, now := New(), Instant(time.Hour)
	at := time.Unix(1_790_000_000, 0)
	apply := func(key entry.Key, change func(e *entry.Entry)) {
		e := entry.Entry{Key: key, Revision: v.Revision + 1, Time: at}
		e.Previous, _ = v.Latest(key)
		change(&e)
		v.Apply(&e, 0, now)
		v.Touched()
	}
	before := inUse()
	for n := range pools {
		pool := entry.Hash{byte(n), byte(n >> 8), 1}
		apply(entry.Key{Kind: entry.Config, Pool: pool}, func(e *entry.Entry) {
			e.Config = entry.ConfigValue{Count: slots, Generation: uint64(n + 1)}
		})
		for i := range slots {
			apply(SlotKey(pool, i), func(e *entry.Entry) {
				e.TTL = time.Minute + Guard
				e.Slot = entry.SlotValue{Lease: entry.Hash{byte(i), byte(i >> 8), 2}, Generation: uint64(n + 1), TTL: entry.Span(time.Minute)}
			})
		}
		for i := range slots {
			apply(SlotKey(pool, i), func(e *entry.Entry) { e.Marker, e.TTL = true, time.Minute+Guard+expiryLate })
		}
	}
	if kept := keptSlots(v); kept != pools*slots {
		t.Fatalf("the view knows %d slots", kept)
	}
	used := inUse() - before
	now = now.Add(time.Minute + Guard + 2*expiryLate)
	v.Forget(now)
	if kept := keptSlots(v); kept != 0 {
		t.Errorf("the view still knows %d slots", kept)
	}
	if left := inUse() - before; left > used/20 {
		t.Errorf("%d bytes are left of %d", left, used)
	}
	for n := range pools {
		apply(entry.Key{Kind: entry.Config, Pool: entry.Hash{byte(n), byte(n >> 8), 1}}, func(e *entry.Entry) { e.Marker, e.TTL = true, MarkerTTL })
	}
	v.Forget(now.Add(MarkerTTL + 2*expiryLate))
	if kept := v.Pools(); kept != 0 {
		t.Errorf("the view still knows %d pools", kept)
	}
	runtime.KeepAlive(v)
}

// A client may register and delete pools all the time, and their markers live for minutes.
func TestEndedPoolsAreSmall(t *testing.T) {
	const pools, most = 20_000, 250 // bytes for each, with the maps and the queue
	v, now := New(), Instant(time.Hour)
	v.BecomeLive()
	origin := entry.Hash{7}
	apply := func(pool entry.Hash, change func(e *entry.Entry)) {
		e := entry.Entry{Key: ConfigKey(pool), Revision: v.Revision + 1, Time: time.Unix(1_790_000_000, 0)}
		e.Previous, _ = v.Latest(e.Key)
		change(&e)
		v.Apply(&e, 0, now)
		v.Touched()
	}
	register := func(e *entry.Entry) { e.Config = entry.ConfigValue{Count: 1, Generation: 1, Origin: origin} }
	before := inUse()
	for n := range pools {
		pool := entry.Hash{byte(n), byte(n >> 8), 1}
		apply(pool, register)
		apply(pool, func(e *entry.Entry) { e.Marker, e.TTL = true, Guard+MarkerTTL })
	}
	v.Touched()
	if used := (inUse() - before) / pools; used > most {
		t.Errorf("an ended pool takes %d bytes, want %d at most", used, most)
	}
	pool := entry.Hash{1, 0, 1}
	if revision, taken := v.Latest(ConfigKey(pool)); revision == 0 || taken || v.Pool(pool).Exists() || v.OriginOf(ConfigKey(pool)) != origin {
		t.Errorf("an ended pool has revision %d, taken: %t, origin %s", revision, taken, v.OriginOf(ConfigKey(pool)))
	}
	apply(pool, register)
	if v.Tombstones != pools-1 || !v.Pool(pool).Exists() || v.Pools() != pools {
		t.Errorf("%d of %d have ended after one was registered again", v.Tombstones, v.Pools())
	}
	now = now.Add(Guard + MarkerTTL + 2*expiryLate)
	if v.Forget(now); v.Tombstones != 0 || v.Pools() != 1 || !v.Pool(pool).Exists() || v.TombstonesReach(1, origin) {
		t.Errorf("%d of %d have ended when all markers are gone", v.Tombstones, v.Pools())
	}
	runtime.KeepAlive(v)
}

// keptSlots returns for how many slots the view has memory.
func keptSlots(v *View) (n int) {
	for _, p := range v.pools {
		n += len(p.slots)
	}
	return n
}

// inUse returns how many bytes of the heap are in use.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
