package stream_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/sim/stream"
)

var start = time.Unix(1_800_000_000, 0)

// modelOf returns a model with some traps, whose first sequence is 1.
func modelOf(replicas int, change func(*stream.Traps)) *stream.Stream {
	t := stream.Plain()
	if change != nil {
		change(&t)
	}
	return stream.New(stream.Options{Replicas: replicas, FirstSequence: 1, Traps: t}, rand.New(rand.NewPCG(1, 2)), start)
}

func put(key, ttl string) stream.Message {
	return stream.Message{Key: key, Header: stream.Header{TTL: ttl}, Data: []byte("{}")}
}

func expecting(m stream.Message, revision uint64) stream.Message {
	m.Header.Expected = &revision
	return m
}

func purgeOf(key string, revision uint64, ttl string) stream.Message {
	return expecting(stream.Message{Key: key, Header: stream.Header{Operation: "PURGE", TTL: ttl}}, revision)
}

func written(t *testing.T, a stream.Ack) uint64 {
	t.Helper()
	if a.Sequence == 0 {
		t.Fatalf("not written: %+v", a)
	}
	return a.Sequence
}

func refused(t *testing.T, a stream.Ack, code int, revision uint64) {
	t.Helper()
	if a.Sequence != 0 || a.Code != code || a.Revision != revision {
		t.Fatalf("ack is %+v, not code %d with revision %d", a, code, revision)
	}
}

func met(t *testing.T, s *stream.Stream, trap stream.Trap, n int) {
	t.Helper()
	if got := s.Met(trap); got != n {
		t.Errorf("%s was met %d times, not %d", trap, got, n)
	}
}

func standing(s *stream.Stream) string {
	text := ""
	for _, m := range s.All() {
		text += fmt.Sprintf("%d:%s ", m.Sequence, m.Key)
	}
	return text
}

func stands(t *testing.T, s *stream.Stream, want string) {
	t.Helper()
	if got := standing(s); got != want {
		t.Errorf("what stands is %q, not %q", got, want)
	}
}

func TestExpiryWritesMarker(t *testing.T) {
	s := modelOf(1, nil)
	written(t, s.Publish(put("k", "3s"), start))
	if at := s.NextExpiry(); !at.Equal(start.Add(3 * time.Second)) {
		t.Errorf("next expiry at %s", at.Sub(start))
	}
	s.Advance(start.Add(3 * time.Second))
	m, _ := s.Get("k")
	if e := m.Entry(); !e.Marker || e.Revision != 2 || !m.Time.Equal(start.Add(3*time.Second)) {
		t.Errorf("%+v", m)
	}
	s.Advance(start.Add(3*time.Second + stream.DefaultMarkerTTL))
	if s.Len() != 0 || s.Info().Last != 2 || s.Info().First != 3 {
		t.Errorf("%+v", s.Info())
	}
}

func TestExpiryIsLate(t *testing.T) {
	s := modelOf(1, func(o *stream.Traps) { o.ExpiryLate = stream.Measured().ExpiryLate })
	for n := range 1000 {
		written(t, s.Publish(put(fmt.Sprint(n), "10s"), start))
	}
	s.Advance(start.Add(10*time.Second + 250*time.Millisecond))
	var late time.Duration
	for _, m := range s.All() {
		late = max(late, m.Time.Sub(start.Add(10*time.Second)))
	}
	if s.Info().First != 1001 || late < 200*time.Millisecond {
		t.Errorf("first is %d, the latest came %s late", s.Info().First, late)
	}
}

func TestExpiryWaitsAfterLeadersDeath(t *testing.T) {
	s := modelOf(3, func(o *stream.Traps) { o.DeathExpiryMin, o.DeathExpiryMax = 4*time.Second, 8*time.Second })
	written(t, s.Publish(put("k", "1s"), start))
	s.Kill(start)
	if at := s.NextExpiry().Sub(start); at < 4*time.Second || at > 8*time.Second {
		t.Errorf("expires after %s", at)
	}
	s.Advance(start.Add(8 * time.Second))
	met(t, s, stream.LateAfterDeath, 1)
}

func TestLeadersClockStepsExpiry(t *testing.T) {
	for _, ahead := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		s := modelOf(3, nil)
		written(t, s.Publish(put("k", "720s"), start))
		s.ChangeLeader(ahead, false, start)
		want := 12*time.Minute - ahead
		if at := s.NextExpiry().Sub(start); at != want {
			t.Errorf("%s ahead: expires after %s, not %s", ahead, at, want)
		}
		n := written(t, s.Publish(put("other", ""), start))
		if m, _ := s.Get("other"); !m.Time.Equal(start.Add(ahead)) {
			t.Errorf("message %d has time %s", n, m.Time.Sub(start))
		}
		s.Advance(start.Add(want))
		if m, _ := s.Get("k"); !m.Entry().Marker {
			t.Errorf("%s ahead: did not expire", ahead)
		}
	}
}

func TestServersMarkerErasesAcknowledgedWrite(t *testing.T) {
	s := modelOf(1, func(o *stream.Traps) { o.RollupWindow = time.Hour })
	claim := written(t, s.Publish(put("k", "1s"), start))
	renewal := written(t, s.Publish(expecting(put("k", ""), claim), start.Add(1001*time.Millisecond)))
	s.Advance(s.NextExpiry())
	m, _ := s.Get("k")
	if m.Sequence != renewal+1 || m.Header.Reason != "MaxAge" || m.Header.Rollup != "sub" || m.Header.Expected != nil {
		t.Errorf("%+v", m)
	}
	met(t, s, stream.ErasedAfterAck, 1)
}

func TestTTLIsCutToWholeSeconds(t *testing.T) {
	s := modelOf(1, nil)
	refused(t, s.Publish(put("k", "999ms"), start), stream.CodeInvalidTTL, 0)
	written(t, s.Publish(put("k", "1999ms"), start))
	if at := s.NextExpiry().Sub(start); at != time.Second {
		t.Errorf("expires after %s", at)
	}
	met(t, s, stream.TTLCut, 1)

	s = modelOf(1, func(o *stream.Traps) { o.TTLWholeSeconds = false })
	written(t, s.Publish(put("k", "999ms"), start))
	if at := s.NextExpiry().Sub(start); at != 999*time.Millisecond {
		t.Errorf("expires after %s", at)
	}
}

func TestMarkerGoesSilently(t *testing.T) {
	s := modelOf(1, nil)
	claim := written(t, s.Publish(put("k", ""), start))
	marker := written(t, s.Publish(purgeOf("k", claim, "120s"), start))
	refused(t, s.Publish(expecting(put("k", ""), 0), start.Add(119*time.Second)), stream.CodeConflict, marker)
	refused(t, s.Publish(expecting(put("k", ""), marker), start.Add(120*time.Second)), stream.CodeConflict, 0)
	if s.Info().Last != marker {
		t.Error("something was written")
	}
	met(t, s, stream.MarkerExpired, 1)

	s = modelOf(1, func(o *stream.Traps) { o.MarkersExpire = false })
	written(t, s.Publish(purgeOf("k", 0, "120s"), start))
	refused(t, s.Publish(expecting(put("k", ""), 0), start.Add(time.Hour)), stream.CodeConflict, 1)
}

func TestWriteInFlight(t *testing.T) {
	s := modelOf(3, func(o *stream.Traps) { o.InFlightWindow = time.Millisecond })
	claim := written(t, s.Publish(expecting(put("k", ""), 0), start))
	refused(t, s.Publish(expecting(put("k", ""), claim), start.Add(999*time.Microsecond)), stream.CodeInFlight, 0)
	written(t, s.Publish(put("k", ""), start)) // a barrier expects nothing
	written(t, s.Publish(expecting(put("k", ""), claim+1), start.Add(2*time.Millisecond)))
	met(t, s, stream.InFlight, 1)

	s = modelOf(3, func(o *stream.Traps) { o.InFlightRate = 1 })
	refused(t, s.Publish(expecting(put("k", ""), 0), start), stream.CodeInFlight, 0)
	s = modelOf(1, func(o *stream.Traps) { o.InFlightRate, o.InFlightWindow = 1, time.Hour })
	written(t, s.Publish(expecting(put("k", ""), 0), start))
	written(t, s.Publish(expecting(put("k", ""), 1), start))
}

func TestNoLeader(t *testing.T) {
	s := modelOf(3, nil)
	written(t, s.Publish(put("k", "5s"), start))
	s.BeginGap(start.Add(time.Second))
	refused(t, s.Publish(put("k", ""), start.Add(time.Second)), stream.CodeNoResponders, 0)
	s.SetTraps(func(o *stream.Traps) { o.SilentGap = 1 })
	if a := s.Publish(put("k", ""), start.Add(2*time.Second)); !a.Unanswered || a.Sequence != 0 {
		t.Errorf("%+v", a)
	}
	if !s.NextExpiry().IsZero() {
		t.Error("something expires without a leader")
	}
	s.EndGap(start.Add(time.Minute))
	s.Advance(start.Add(time.Minute))
	if m, _ := s.Get("k"); !m.Time.Equal(start.Add(time.Minute)) {
		t.Errorf("%+v", m)
	}
}

func TestKillRevivesSuperseded(t *testing.T) {
	for _, c := range []struct {
		name, markerTTL string
		change          func(*stream.Traps)
		compact         bool
		want            string
	}{
		{"the marker is gone", "120s", nil, false, "1:k 2:other "},
		{"the marker outlives the claim", "3700s", nil, false, "2:other 3:k "},
		{"compacted", "120s", nil, true, "2:other "},
		{"switched off", "120s", func(o *stream.Traps) { o.ReviveAfterKill = false }, false, "2:other "},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := modelOf(1, func(o *stream.Traps) { o.ReviveAfterKill = true })
			if c.change != nil {
				s.SetTraps(c.change)
			}
			claim := written(t, s.Publish(put("k", "3600s"), start))
			written(t, s.Publish(put("other", ""), start))
			written(t, s.Publish(purgeOf("k", claim, c.markerTTL), start))
			watch := s.Consumer(0)
			later := start.Add(10 * time.Minute)
			s.Advance(later)
			if c.compact {
				s.Compact(s.Info().Last)
			}
			s.Kill(later)
			stands(t, s, c.want)
			if s.Info().Last != 3 || !watch.Lost() {
				t.Errorf("last is %d", s.Info().Last)
			}
			s.Advance(start.Add(time.Hour)) // what came back expires after all
			if m, ok := s.Get("k"); ok && c.want == "1:k 2:other " && m.Header.Reason != "MaxAge" {
				t.Errorf("%+v", m)
			}
		})
	}
}

func TestKillRevivesNothingInEmptyStream(t *testing.T) {
	s := modelOf(1, func(o *stream.Traps) { o.ReviveAfterKill = true })
	written(t, s.Publish(purgeOf("k", written(t, s.Publish(put("k", ""), start)), "2s"), start))
	s.Kill(start.Add(time.Minute))
	stands(t, s, "")
}

func TestLoseTail(t *testing.T) {
	s := modelOf(1, nil)
	claim := written(t, s.Publish(put("k", ""), start))
	written(t, s.Publish(put("other", ""), start))
	written(t, s.Publish(purgeOf("k", claim, "120s"), start))
	written(t, s.Publish(put("new", ""), start))
	s.LoseTail(2, start)
	stands(t, s, "1:k 2:other ")
	ahead := s.Consumer(5) // the watch of a peer that has seen the lost messages
	if n := written(t, s.Publish(put("x", ""), start)); n != 3 {
		t.Errorf("sequence %d", n)
	}
	if m, ok := ahead.Next(); ok {
		t.Errorf("delivered %+v", m)
	}
	written(t, s.Publish(put("y", ""), start))
	written(t, s.Publish(put("z", ""), start))
	if m, ok := ahead.Next(); !ok || m.Key != "z" {
		t.Errorf("delivered %+v", m)
	}
	met(t, s, stream.TailLost, 1)
	met(t, s, stream.SequenceReused, 2)
	s.LoseTail(1000, start)
	stands(t, s, "")
}

func TestLoseTailOfNothingIsKill(t *testing.T) {
	s := modelOf(1, func(o *stream.Traps) { o.ReviveAfterKill = true })
	claim := written(t, s.Publish(put("k", ""), start))
	written(t, s.Publish(put("other", ""), start))
	written(t, s.Publish(purgeOf("k", claim, "2s"), start))
	watch, later := s.Consumer(0), start.Add(time.Minute)
	s.LoseTail(0, later)
	stands(t, s, "1:k 2:other ")
	met(t, s, stream.TailLost, 0)
	if !watch.Lost() {
		t.Error("the consumer lives on")
	}
}

func TestLoseTailAfterCompactionLosesBoth(t *testing.T) {
	s := modelOf(1, nil)
	claim := written(t, s.Publish(put("k", ""), start))
	written(t, s.Publish(expecting(put("k", ""), claim), start))
	s.Compact(claim)
	s.LoseTail(1, start)
	stands(t, s, "")
	met(t, s, stream.SupersededLost, 1)
}

func TestConsumerSkips(t *testing.T) {
	s := modelOf(1, nil)
	c := s.Consumer(0)
	written(t, s.Publish(put("a", ""), start))
	c.Next()
	written(t, s.Publish(put("k", ""), start))
	written(t, s.Publish(put("k", ""), start))
	if m, ok := c.Next(); !ok || m.Sequence != 3 || c.Delivered() != 2 {
		t.Errorf("delivered %+v as number %d", m, c.Delivered())
	}
	if _, ok := c.Next(); ok {
		t.Error("more was delivered")
	}
	met(t, s, stream.SkippedDelivery, 1)
	s.LoseConsumers()
	written(t, s.Publish(put("k", ""), start))
	if _, ok := c.Next(); ok || !c.Lost() {
		t.Error("a lost consumer delivers")
	}
}

func TestReplicaBehind(t *testing.T) {
	s := modelOf(3, nil)
	written(t, s.Publish(put("k", ""), start))          // 1
	written(t, s.Publish(put("j", ""), start))          // 2
	written(t, s.Publish(purgeOf("k", 1, "2s"), start)) // 3
	written(t, s.Publish(put("k", ""), start))          // 4
	for behind, want := range map[uint64]string{0: "[2 4 -]", 1: "[2 3 - 4]", 2: "[1 2 - 4]", 3: "[1 - 2 4]", 4: "[- 2 4]"} {
		c := s.Consumer(0)
		c.Behind(4 - behind)
		var got []string
		for range 4 {
			m, ok := c.Next()
			switch {
			case ok:
				got = append(got, fmt.Sprint(m.Sequence))
			case c.CaughtUp():
			default:
				got = append(got, "-")
				c.CatchUp()
			}
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%d behind: %v, not %s", behind, got, want)
		}
	}
	met(t, s, stream.LateReplica, 5)
}

func TestFeed(t *testing.T) {
	s := modelOf(1, nil)
	fed := func(want string) {
		t.Helper()
		var got []uint64
		for _, m := range s.Republished() {
			got = append(got, m.Sequence)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("fed %v, not %s", got, want)
		}
	}
	written(t, s.Publish(put("k", ""), start))
	fed("[1]")
	written(t, s.Publish(put("k", "1s"), start))
	s.Advance(start.Add(time.Second))
	fed("[2 3]") // with the server's marker, and with what was overwritten
	fed("[]")
}

func TestRevisionAt(t *testing.T) {
	s := modelOf(3, nil)
	written(t, s.Publish(put("k", ""), start))          // 1
	written(t, s.Publish(put("j", ""), start))          // 2
	written(t, s.Publish(purgeOf("k", 1, "2s"), start)) // 3
	for last, want := range map[uint64]uint64{1: 1, 2: 1, 3: 3} {
		if got, known := s.RevisionAt("k", last); got != want || !known {
			t.Errorf("at %d: %d, %t, not %d", last, got, known, want)
		}
	}
	s.Advance(start.Add(time.Minute)) // the marker expires
	written(t, s.Publish(put("j", ""), start.Add(time.Minute)))
	if got, known := s.RevisionAt("k", 4); got != 0 || !known {
		t.Errorf("after the marker: %d, %t", got, known)
	}
}

func TestPurgeAndReplace(t *testing.T) {
	s := modelOf(1, nil)
	written(t, s.Publish(put("k", ""), start))
	s.Purge(start)
	if i := s.Info(); s.Len() != 0 || i.Last != 1 || i.First != 2 || !i.Created.Equal(start) {
		t.Errorf("%+v", i)
	}
	refused(t, s.Publish(expecting(put("k", ""), 1), start), stream.CodeConflict, 0)
	if s.Create(0, start) {
		t.Error("a second stream of the name was created")
	}
	watch := s.Consumer(0)
	later := start.Add(time.Minute)
	s.Delete(later)
	refused(t, s.Publish(put("k", ""), later), stream.CodeNoResponders, 0)
	if s.Info().Exists || !watch.Lost() {
		t.Error("the stream is still there")
	}
	if !s.Create(0, later) {
		t.Error("not created")
	}
	want := uint64(later.UnixMicro())
	if i := s.Info(); !i.Created.Equal(later) || i.First != want || i.Last != want-1 {
		t.Errorf("%+v", i)
	}
	s.Delete(later)
	s.StepClock(-10*time.Minute, later)
	s.Create(0, later)
	met(t, s, stream.StreamReplaced, 2)
	met(t, s, stream.FirstSequenceBack, 1)
}
