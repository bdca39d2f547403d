package kvslots

import (
	"context"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

func TestLeaseDone(t *testing.T) {
	peers := openPeers(t, kvslotstest.Start(t, ""), 2)
	pool := newPool(t, peers[0], 4)
	for _, c := range []struct {
		name string
		end  func(l *Lease) error
	}{
		{"returned", func(l *Lease) error { _, err := l.Return(t.Context()); return err }},
		{"returned elsewhere", func(l *Lease) error { _, err := peers[1].Return(t.Context(), pool, l.ID()); return err }},
		{"its time is over", func(*Lease) error { return nil }},
		{"pool deleted elsewhere", func(*Lease) error { return peers[1].Delete(t.Context(), pool) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := peers[0].Borrow(t.Context(), pool, time.Second, 0)
			if err != nil {
				t.Fatal(err)
			}
			select {
			case <-l.Done():
				t.Fatal("ended at once")
			default:
			}
			if err := c.end(l); err != nil {
				t.Fatal(err)
			}
			<-l.Done()
			<-l.Done()
		})
	}
}

func TestKeepAlive(t *testing.T) {
	peers := openPeers(t, kvslotstest.Start(t, ""), 2)
	pool := newPool(t, peers[0], 1)
	l, err := peers[0].Borrow(t.Context(), pool, time.Second, 0)
	if err != nil {
		t.Fatal(err)
	}
	first := l.ExpiresAt()
	stop := l.KeepAlive(context.Background())
	defer stop()
	eventually(t, "it outlives its ttl", func() bool { return time.Now().After(first.Add(500 * time.Millisecond)) })
	wantState(t, peers[1], pool, State{Count: 1, InUse: 1})
	if err := peers[1].Delete(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	<-l.Done() // lost: KeepAlive has stopped
	stop()
	stop()
	wantErr(t, l.Renew(t.Context(), time.Second), ErrNoPool)
}
