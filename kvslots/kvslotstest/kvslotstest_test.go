package kvslotstest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/kvslots/natsstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(logtest.NoSecrets(m)) }

// A test of a program that uses kvslots.
func ExampleNew() {
	_ = func(t *testing.T) { // TestDeployTakesTheLock
		store := kvslotstest.New(t)
		pool := uuid.New()
		kvslotstest.Must(t, kvslotstest.Err(store.Register(t.Context(), pool, 1)))
		lease, err := store.Borrow(t.Context(), pool, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(0))
		kvslotstest.Must(t, err)
		if _, err := store.Borrow(t.Context(), pool, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(0)); !errors.Is(err, kvslots.ErrNoSlot) {
			t.Errorf("a second deployment: %v", err)
		}
		if _, err := lease.Return(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// Each store has a bucket of its own.
func TestNew(t *testing.T) {
	pool := uuid.New()
	one, other := kvslotstest.New(t), kvslotstest.New(t)
	kvslotstest.Must(t, kvslotstest.Err(one.Register(t.Context(), pool, 1)))
	lease, err := one.Borrow(t.Context(), pool, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(0))
	kvslotstest.Must(t, err)
	if _, err := one.Borrow(t.Context(), pool, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(0)); !errors.Is(err, kvslots.ErrNoSlot) {
		t.Errorf("a second borrow: %v", err)
	}
	if _, err := other.Borrow(t.Context(), pool, kvslots.WithFixedTTL(time.Minute), kvslots.WithWait(0)); !errors.Is(err, kvslots.ErrNoPool) {
		t.Errorf("a borrow from another store: %v", err)
	}
	if _, err := lease.Return(t.Context()); err != nil {
		t.Error(err)
	}
}

// Several peers share the bucket of one server.
func TestPeersOfOneServer(t *testing.T) {
	srv := kvslotstest.Start(t, "")
	var stores [2]*kvslots.Store
	for i := range stores {
		store, err := natsstore.Open(t.Context(), srv.Connect(), kvslots.Config{Logger: logtest.Logger()})
		kvslotstest.Must(t, err)
		t.Cleanup(func() { _ = store.Close(context.Background()) })
		stores[i] = store
	}
	pool := uuid.New()
	kvslotstest.Must(t, kvslotstest.Err(stores[0].Register(t.Context(), pool, 3)))
	if state, err := stores[1].Inspect(t.Context(), pool); err != nil || state.Count != 3 {
		t.Errorf("%+v, %v", state, err)
	}
}
