package admission

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// looked is a Listener with a connection that receives everything, from an address of its own.
// It takes time to look at the subscriptions.
type looked struct {
	Listener
	takes time.Duration
	looks int
}

func (l *looked) Subscribers() func(string) []uint64 {
	l.looks++
	time.Sleep(l.takes)
	return func(string) []uint64 { return []uint64{7} }
}

func (l *looked) Address(uint64) (string, bool) { return "192.0.2.7:4711", true }

// Looks take at most a quarter of the time, however many requests need one.
func TestLooksRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes, looks = 10 * time.Millisecond, 5
		c, began := NewConnections(&looked{takes: takes}), time.Now()
		for range looks {
			c.Of("_INBOX.a.1")
		}
		if got, want := time.Since(began), looks*takes+(looks-1)*3*takes; got != want {
			t.Errorf("%d looks take %v, want %v", looks, got, want)
		}
	})
}

// A connection that the last look has found needs no further look, unless its address does not do.
func TestAddressesOfLastLook(t *testing.T) {
	listener := &looked{}
	c := NewConnections(listener)
	for range 3 {
		for address := range c.Addresses("_INBOX.a.1") {
			if address != "192.0.2.7:4711" {
				t.Errorf("address %s", address)
			}
			break
		}
	}
	if listener.looks != 1 {
		t.Errorf("%d looks for one connection", listener.looks)
	}
	if all := slices.Collect(c.Addresses("_INBOX.a.1")); len(all) != 2 || listener.looks != 2 {
		t.Errorf("%v after %d looks", all, listener.looks)
	}
}
