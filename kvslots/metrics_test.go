package kvslots

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/access"
	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

// Metrics has every metric of the bucket, and the bounds of a histogram are the peer's.
func TestMetricsAreComplete(t *testing.T) {
	var of access.Metrics
	from := reflect.ValueOf(&of).Elem()
	next := int64(1)
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		switch {
		case v.CanInt():
			v.SetInt(next)
		case v.CanUint():
			v.SetUint(uint64(next))
		case v.Kind() == reflect.Array:
			fill(v.Index(v.Len() - 1))
		default:
			for _, field := range v.Fields() {
				fill(field)
			}
		}
		next++
	}
	fill(from)
	got := reflect.ValueOf(metricsOf(of))
	for _, field := range reflect.VisibleFields(from.Type()) {
		if field.Anonymous {
			continue
		}
		want := from.FieldByIndex(field.Index)
		if v := got.FieldByName(field.Name); !v.IsValid() || fmt.Sprintf("%+v", v) != fmt.Sprintf("%+v", want) {
			t.Errorf("%s is %v, want %v", field.Name, v, want)
		}
	}
	for i := range of.Wrote.Buckets {
		if own := new(Durations).Bound(i); own != of.Wrote.Bound(i) {
			t.Errorf("bound %d is %v, and the peer's %v", i, own, of.Wrote.Bound(i))
		}
	}
}

// Every peer measures the whole bucket, and counts its own actions.
func TestMetrics(t *testing.T) {
	besideOthers(t)
	srv := natstest.Start(t, "")
	stores := openPeers(t, srv, 2)
	s, other := stores[0], stores[1]
	pool := newPool(t, s, 2)
	first, second := mustBorrow(t, s, pool), mustBorrow(t, s, pool)
	session, _, err := s.CreateSession(t.Context(), WithIdle(time.Minute))
	natstest.Must(t, err)
	natstest.Must(t, natstest.Err(s.Acquire(t.Context(), session, Semaphore("printers", 3), WithTTL(time.Minute), WithWait(0))))
	waited := make(chan error, 1)
	go func() {
		_, err := other.Borrow(t.Context(), pool, WithFixedTTL(time.Minute), WithWait(time.Minute))
		waited <- err
	}()
	await := func(what string, s *Store, is func(Metrics) bool) (m Metrics) {
		t.Helper()
		eventually(t, what, func() bool { m = s.Metrics(); return is(m) })
		return m
	}
	for _, s := range stores {
		m := await("the line", s, func(m Metrics) bool { return m.Waiting == 1 && m.OldestWait > 0 && m.Named.InUse == 1 })
		if p, n := m.Pools, m.Named; p.Pools != 1 || p.Capacity != 2 || p.InUse != 2 || n.Pools != 1 || n.Capacity != 3 || m.Sessions != 1 {
			t.Errorf("pools %+v, named %+v, sessions %d", p, n, m.Sessions)
		}
	}
	mustReturn(t, s, pool, first)
	natstest.Must(t, <-waited)
	mustReturn(t, s, pool, second)
	short, err := s.Borrow(t.Context(), pool, WithFixedTTL(time.Second), WithWait(0))
	natstest.Must(t, err)
	// Any peer may end it, if the one that granted it is slow.
	eventually(t, "the expiry", func() bool { return s.Metrics().Expiries.Pools+other.Metrics().Expiries.Pools == 1 })
	m, o := s.Metrics(), other.Metrics()
	if m.Grants != 4 || m.Claims < m.Grants || o.Grants != 1 || o.Claims < o.Grants {
		t.Errorf("%d claims for %d grants, and %d for %d", m.Claims, m.Grants, o.Claims, o.Grants)
	}
	if m.Leased.Pools.Count+o.Leased.Pools.Count != 3 || m.Leased.Pools.Sum+o.Leased.Pools.Sum < short.TTL() {
		t.Errorf("leased %+v and %+v", m.Leased, o.Leased)
	}
	if m.Wrote.Count < 8 || m.Read.Count == 0 || m.Read.Count > m.Barriers || m.Readings != 1 || m.Rebuilds != 0 {
		t.Errorf("wrote %d, read %d, barriers %d, readings %d, rebuilds %d", m.Wrote.Count, m.Read.Count, m.Barriers, m.Readings, m.Rebuilds)
	}

	natstest.Must(t, natstest.Err(srv.Connect().RequestWithContext(t.Context(), bucket.SubjectPrefix+"x.foreign", []byte("x"))))
	await("the foreign entry", s, func(m Metrics) bool { return m.Foreign == 1 })
	await("the level", s, func(m Metrics) bool { return m.LagRevisions == 0 && m.Lag < 2*time.Second && m.WritesInFlight == 0 })
	srv.Stop()
	await("the lag", s, func(m Metrics) bool { return m.Lag > 2*time.Second })
}

// The cost of Metrics does not grow with the number of pools.
func BenchmarkMetrics(b *testing.B) {
	s := openPeers(b, natstest.Start(b, ""), 1)[0]
	for range 1000 {
		natstest.Must(b, natstest.Err(s.Register(b.Context(), uuid.New(), 1)))
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Metrics()
	}
}
