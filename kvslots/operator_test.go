package kvslots

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

// An operator looks at a pool by its hash, ends a lease, and takes a position out of service; the
// holder learns of it at once.
func TestOperator(t *testing.T) {
	ctx := t.Context()
	peers := openPeers(t, natstest.Start(t, ""), 2)
	s, other, pool := peers[0], peers[1], uuid.New()
	natstest.Must(t, natstest.Err(s.Register(ctx, pool, 2, WithName("screens"))))
	lease, err := s.Borrow(ctx, pool, WithFixedTTL(time.Minute), WithWait(0), WithLabel("ci@build7:1234 make"))
	natstest.Must(t, err)
	if h, err := other.Holder(ctx, pool, lease.ID()); err != nil || h.Fence != lease.Fence() || h.Label != "ci@build7:1234 make" {
		t.Errorf("the holder: %+v, %v", h, err)
	}
	listed, next, err := other.ReadPools(ctx, PoolQuery{Max: 10, Match: "SCREEN"})
	if err != nil || len(listed) != 1 || next != "" || listed[0].Name != "screens" {
		t.Fatalf("listed: %+v, %q, %v", listed, next, err)
	}
	ref, err := ByHash(listed[0].Hash.String())
	if err != nil || ref.Hash() != ByID(pool).Hash() {
		t.Fatal(ref, err)
	}
	if state, err := other.TakeOut(ctx, ref, OutOfService{Position: 0, Reason: "broken"}); err != nil || state.Available != 1 {
		t.Errorf("%+v, %v", state, err)
	}
	if h, err := other.Evict(ctx, ref, 0, lease.Fence()); err != nil || h.Label != "ci@build7:1234 make" {
		t.Errorf("ended: %+v, %v", h, err)
	}
	<-lease.Done()
	for _, peer := range []*Store{s, other} {
		_, err := peer.Renew(ctx, pool, lease.ID(), time.Minute)
		wantErr(t, err, ErrEvicted)
	}
	if ok, err := s.Return(ctx, pool, lease.ID()); ok || err != nil {
		t.Errorf("returned: %t, %v", ok, err)
	}
	second, err := s.Borrow(ctx, pool, WithFixedTTL(time.Minute), WithWait(0), WithLabel("ci@build8"))
	if err != nil || second.Position() != 1 {
		t.Fatalf("%+v, %v", second, err)
	}
	_, err = s.Borrow(ctx, pool, WithFixedTTL(time.Minute), WithWait(0))
	if refused, ok := errors.AsType[*TakenError](err); !ok || refused.Place != 1 || refused.HeldBy != "ci@build8" || !errors.Is(err, ErrNoSlot) {
		t.Errorf("refused: %v", err)
	}
	detail, err := other.ReadPool(ctx, ref, DetailPage{})
	if err != nil || len(detail.Holders) != 1 || len(detail.OutOfService) != 1 || detail.OutOfService[0].Reason != "broken" || detail.Available != 0 {
		t.Errorf("%+v, %v", detail, err)
	}
	if state, err := other.PutBack(ctx, ref, 0); err != nil || state.Available != 1 {
		t.Errorf("%+v, %v", state, err)
	}
}

func TestOperatorRanges(t *testing.T) {
	ctx := t.Context()
	s, pool := openPeers(t, natstest.Start(t, ""), 1)[0], uuid.New()
	_, _, err := s.ReadPools(ctx, PoolQuery{})
	wantRange(t, err, "max")
	_, _, err = s.ReadPools(ctx, PoolQuery{Max: 1, After: "x"})
	wantRange(t, err, "after")
	_, err = ByHash("x")
	wantRange(t, err, "hash")
	_, err = s.TakeOut(ctx, ByID(pool), OutOfService{Position: -2})
	wantRange(t, err, "position")
	for _, text := range []string{strings.Repeat("é", MaxLabel+1), "a\nb", "\xff", "a\u202eb", "\u200b"} {
		_, err = s.TakeOut(ctx, ByID(pool), OutOfService{Reason: text})
		wantRange(t, err, "reason")
		_, err = s.Register(ctx, pool, 1, WithName(text))
		wantRange(t, err, "name")
		_, err = s.Borrow(ctx, pool, WithFixedTTL(time.Second), WithWait(0), WithLabel(text))
		wantRange(t, err, "label")
	}
	if _, err = s.Register(ctx, pool, 1, WithName(strings.Repeat("é", MaxLabel))); err != nil {
		t.Error(err)
	}
	if _, err = s.TakeOut(ctx, ByName("no-such-name"), OutOfService{}); !errors.Is(err, ErrNoPool) {
		t.Error(err)
	}
}

func wantRange(t *testing.T, err error, field string) {
	t.Helper()
	if outside, ok := errors.AsType[*RangeError](err); !ok || outside.Field != field {
		t.Errorf("%v, want a *RangeError of %s", err, field)
	}
}

// What is out of service in a pool is bounded in bytes, so that its configuration can always be
// written and read.
func TestOutOfServiceIsBounded(t *testing.T) {
	ctx := t.Context()
	s, pool := openPeers(t, natstest.Start(t, ""), 1)[0], uuid.New()
	natstest.Must(t, natstest.Err(s.Register(ctx, pool, 1000)))
	reason := strings.Repeat("<", MaxLabel)
	for i := range 1000 {
		_, err := s.TakeOut(ctx, ByID(pool), OutOfService{Position: i, Reason: reason})
		if err == nil {
			continue
		}
		if wantRange(t, err, "reason"); i < 40 {
			t.Errorf("%d positions", i)
		}
		break
	}
	if _, err := s.Register(ctx, pool, 999, WithName("another")); err != nil {
		t.Errorf("the pool cannot be changed: %v", err)
	}
	if _, err := s.PutBack(ctx, ByID(pool), 0); err != nil {
		t.Error(err)
	}
	if _, err := s.TakeOut(ctx, ByID(pool), OutOfService{Position: 1, Reason: ""}); err != nil {
		t.Errorf("a shorter reason: %v", err)
	}
}
