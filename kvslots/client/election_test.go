package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

func TestElection(t *testing.T) {
	g := serve(t)
	t.Run("store", func(t *testing.T) { testElection(t, g.store, g.store) })
	t.Run("http", func(t *testing.T) { testElection(t, g.overHTTP(t), g.overHTTP(t)) })
	t.Run("nats", func(t *testing.T) { testElection(t, g.overNATS(t), g.overNATS(t)) })
}

// testElection has two candidates: the second one is elected when the first one resigns, and the first one again
// when the session of the second one ends. An observer without a session sees each leader.
func testElection(t *testing.T, by kvslots.Service, at kvslots.Electorate) {
	observing, stop := context.WithCancelCause(t.Context())
	seen, failed := make(chan kvslots.Leader), make(chan error, 1)
	observer := kvslots.NewElection(nil, at, "leader")
	go func() {
		for leader, err := range observer.Observe(observing) {
			if err != nil {
				failed <- err
				return
			}
			seen <- leader
		}
	}()
	candidate := func() (*kvslots.Session, *kvslots.Election) {
		session, err := kvslots.NewSession(t.Context(), by)
		kvslotstest.Must(t, err)
		t.Cleanup(func() { _ = session.Close(context.Background()) })
		return session, kvslots.NewElection(session, at, "leader")
	}
	_, a := candidate()
	session, b := candidate()
	var last kvslots.Leader
	leads := func(e *kvslots.Election, label string) { // and the observer sees it
		t.Helper()
		leader := <-seen
		for leader == (kvslots.Leader{}) { // it has seen that there was none in between
			leader = <-seen
		}
		if leader.Label != label || leader.Fence <= last.Fence || leader.Fence != e.Fence() || time.Since(leader.Since) < 0 {
			t.Errorf("it sees %+v after %+v, want %s with fence %d", leader, last, label, e.Fence())
		}
		last = leader
		read, err := b.Leader(t.Context())
		if read.Since = leader.Since; err != nil || read != leader {
			t.Errorf("read %+v, %v, want %+v", read, err, leader)
		}
	}
	won := make(chan error, 1)
	campaign := func(e *kvslots.Election, label string) { // until it is in line
		t.Helper()
		go func() { won <- e.Campaign(t.Context(), label) }()
		for {
			detail, err := at.ReadPool(t.Context(), kvslots.ByName("leader"), kvslots.DetailPage{})
			kvslotstest.Must(t, err)
			if len(detail.Waiters) == 1 {
				if got := detail.Waiters[0].Label; got != label {
					t.Errorf("%q waits, want %q", got, label)
				}
				return
			}
		}
	}

	if leader, err := observer.Leader(t.Context()); err != nil || leader != (kvslots.Leader{}) {
		t.Errorf("at first: %+v, %v", leader, err)
	}
	<-a.Lost()
	kvslotstest.Must(t, a.Campaign(t.Context(), "a"))
	leads(a, "a")
	campaign(b, "b")
	lost := a.Lost()
	kvslotstest.Must(t, a.Resign(t.Context()))
	<-lost
	kvslotstest.Must(t, <-won)
	leads(b, "b")
	campaign(a, "a again")
	work, cancel := b.Context(t.Context())
	defer cancel()
	kvslotstest.Must(t, session.Close(t.Context()))
	kvslotstest.Must(t, <-won)
	leads(a, "a again")
	<-b.Lost()
	<-work.Done()
	if err := a.Resign(t.Context()); err != nil {
		t.Error(err)
	}
	if leader := <-seen; leader != (kvslots.Leader{}) {
		t.Errorf("at the end it sees %+v", leader)
	}
	for what, err := range map[string]error{
		"a second Resign": a.Resign(t.Context()), "after the loss": b.Resign(t.Context()),
	} {
		if !errors.Is(err, kvslots.ErrNotHeld) && !errors.Is(err, kvslots.ErrClosed) && !errors.Is(err, kvslots.ErrSessionGone) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := observer.Campaign(t.Context(), "c"); !errors.Is(err, kvslots.ErrSessionGone) {
		t.Errorf("without a session: %v", err)
	}
	stop(errGone)
	if err := <-failed; !errors.Is(err, errGone) {
		t.Errorf("after the end of the context: %v", err)
	}
}
