package rules_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// A peer loads its view of a busy pool, whose lowest free slots are claimed and freed all the
// time. It cannot know which of the claims that it has found are good, and so not which of those
// above them are. That is over soon, and not handed on from claim to claim.
func TestDoubtOfALoadEnds(t *testing.T) {
	const step, length, limit = 5 * time.Millisecond, 10 * time.Second, 1600 * time.Millisecond
	random := rand.New(rand.NewPCG(1, 2))
	s := newStream()
	pool := poolID(0)
	now := rules.Instant(time.Hour)
	v := rules.New()
	apply := func(e entry.Entry, age time.Duration) { v.Apply(s.write(e), age, now) }
	apply(entry.Entry{Key: rules.ConfigKey(pool), Config: entry.ConfigValue{Count: 1000, Generation: 7}}, time.Hour)
	ends := map[int]rules.Instant{}
	claim := func(age time.Duration) {
		position := 0
		for ends[position] != 0 {
			position++
		}
		lease := entry.Hash{1}
		for i := range 8 {
			lease[i+1] = byte(random.Uint32())
		}
		apply(entry.Entry{Key: rules.SlotKey(pool, position), TTL: time.Hour, Slot: entry.SlotValue{
			Lease: lease, Generation: 7, TTL: entry.Span(time.Minute), Claimer: entry.Hash{9},
		}}, age)
		ends[position] = now.Add(time.Duration(random.ExpFloat64() * float64(time.Second)))
	}
	for range 50 {
		claim(100 * time.Millisecond)
	}
	v.BecomeLive(now)
	live, doubted := now, now
	for now < live.Add(length) {
		now = now.Add(step)
		for position, end := range ends {
			if end <= now {
				apply(entry.Entry{Key: rules.SlotKey(pool, position), Marker: true, TTL: 2 * time.Minute}, 0)
				delete(ends, position)
			}
		}
		if random.IntN(4) == 0 {
			claim(0)
		}
		v.Settle(now)
		if v.Pool(pool).InDoubt(now) {
			doubted = now
		}
	}
	if took := doubted.Sub(live); took > limit {
		t.Errorf("a claim was in doubt %v after the view had become live, want %v at most", took, limit)
	}
}
