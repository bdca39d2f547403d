package rules_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// send stores a message in the stream.
func (s *stream) send(m entry.Message) *entry.Entry {
	headers := map[string]string{}
	m.Headers(func(name, value string) { headers[name] = value })
	e := entry.Parse(m.Key.String(), 0, time.Time{}, func(name string) string { return headers[name] }, m.Value(nil))
	return s.put(e)
}

// slotMessage returns a claim or a purge of a slot.
func slotMessage(v *rules.View, ttl time.Duration, free bool) entry.Message {
	key := rules.SlotKey(poolID(1), 0)
	revision, _ := v.Latest(key)
	m := entry.NewPurge(key, revision, rules.MarkerTTL)
	if !free {
		m = entry.NewMessage(key, entry.SlotValue{Lease: leaseID(1), Generation: 1, TTL: entry.Span(ttl)}, revision, ttl+rules.Guard)
	}
	v.Outlive(&m)
	return m
}

// After an unclean stop the server may read any earlier value of a key as current
// if nothing newer is left. So by the leader's clock no entry of a key expires before
// an earlier value, whichever peers wrote them, however far their views were behind.
// The exception is a marker that was in flight while the clock was set back: it is due
// to be written again.
func TestEntriesOutliveEarlierValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newStream()
		peers := []*rules.View{newView(), newView()}
		seen := []int{0, 0}
		follow := func(i int) {
			for _, e := range s.log[seen[i]:] {
				peers[i].Apply(&e, 0, s.instant())
			}
			seen[i] = len(s.log)
		}
		var last time.Time // when the last of the values ends
		for range rapid.IntRange(1, 40).Draw(t, "writes") {
			s.now += time.Duration(rapid.IntRange(0, 900_000).Draw(t, "passes")) * time.Millisecond
			i := rapid.IntRange(0, 1).Draw(t, "peer")
			follow(i) // a CAS proves that its peer knew the key's last entry
			ttl := time.Duration(rapid.SampledFrom([]int{1, 1500, 60_000, 3_600_000}).Draw(t, "ttl")) * time.Millisecond
			m := slotMessage(peers[i], ttl, rapid.Bool().Draw(t, "free"))
			s.now += time.Duration(rapid.IntRange(0, 15_000).Draw(t, "delay")) * time.Millisecond
			setBack := time.Duration(0)
			if rapid.IntRange(0, 9).Draw(t, "set back") == 0 {
				setBack = 5 * time.Minute
			}
			s.skew -= setBack
			e := s.send(m)
			end := e.Time.Add(e.TTL)
			covered := last
			if !e.Marker { // a value need not outlive what another was lengthened by
				covered = last.Add(-5 * time.Second)
			}
			if end.Before(covered) && setBack == 0 {
				t.Fatalf("the entry at %d ends at %v, an earlier value at %v", e.Revision, end, last)
			}
			if !e.Marker && end.After(last) {
				last = end
			}
			follow(i)
			if late := end.Before(last.Add(-5 * time.Second)); e.Marker && late && !remarked(peers[i], s) || !late && setBack == 0 && remarked(peers[i], s) {
				t.Fatalf("a marker that ends at %v, an earlier value at %v: to be written again: %v", end, last, !late)
			}
		}
	})
}

// remarked reports whether the key's marker is due to be written again.
func remarked(v *rules.View, s *stream) bool {
	for _, d := range v.Due(0, 1, s.instant().Add(time.Second)) {
		return d.Marker
	}
	return false
}

// Lives do not add up on a busy key: each entry ends with the last of the values, and
// not later by the rounding of every write.
func TestLivesDoNotAddUp(t *testing.T) {
	s, v := newStream(), newView()
	long := s.send(slotMessage(v, time.Hour, false))
	v.Apply(long, 0, s.instant())
	last := long.Time.Add(long.TTL)
	for i := range 600 {
		s.now += 1100 * time.Millisecond
		m := slotMessage(v, time.Second, i%2 == 0)
		s.now += 400 * time.Millisecond // on its way
		e := s.send(m)
		v.Apply(e, 0, s.instant())
		if end := e.Time.Add(e.TTL); end.Before(last) || end.After(last.Add(15*time.Second)) {
			t.Fatalf("entry %d ends %v after the last value", e.Revision, end.Sub(last))
		}
	}
	s.now += 2 * time.Hour
	feed(s, v, entry.Entry{Key: barrierKey(sessionID(1))}) // the view's time goes by its entries
	m := slotMessage(v, time.Second, true)
	if m.TTL != rules.MarkerTTL || m.Outlives != 0 {
		t.Errorf("when all that is over, a marker lives for %v, and outlives %d", m.TTL, m.Outlives)
	}
}
