//go:build unix

package kvslots

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// ledger records the leases that clients were told, and checks that no two leases of one slot
// were live at a time, and that their fences rise. It is safe for concurrent use.
type ledger struct {
	mu    sync.Mutex
	slots map[any][]*told
	wrong []string
}

// told is a lease as its client knows it. The lease is certainly live from Granted to Ends.
type told struct {
	Fence         uint64
	Granted, Ends time.Time
	By            string // who granted it
}

// newLedger returns an empty ledger.
func newLedger() *ledger { return &ledger{slots: map[any][]*told{}} }

// Grant records a lease of a slot, which is any comparable value.
func (l *ledger) Grant(slot any, lease *told) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slots[slot] = append(l.slots[slot], lease)
}

// Renewed records that a lease lasts longer.
func (l *ledger) Renewed(lease *told, ends time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lease.Ends = ends
}

// GiveBack records that a lease is about to be returned, and returns until when the client
// knew it to be live.
func (l *ledger) GiveBack(lease *told) (ends time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ends = lease.Ends
	if now := time.Now(); now.Before(ends) {
		lease.Ends = now
	}
	return ends
}

// Fail records a violation that the caller has seen.
func (l *ledger) Fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong = append(l.wrong, timeOfDay(time.Now())+" "+fmt.Sprintf(format, args...))
}

// Check returns how many leases there were, and every violation.
func (l *ledger) Check() (leases int, wrong []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	wrong = slices.Clone(l.wrong)
	for slot, list := range l.slots {
		leases += len(list)
		slices.SortFunc(list, func(a, b *told) int { return a.Granted.Compare(b.Granted) })
		last, highest := list[0], list[0] // of those before: the one that ended last, and the one with the highest fence
		for _, t := range list[1:] {
			switch {
			case t.Granted.Before(last.Ends):
				wrong = append(wrong, fmt.Sprintf("%+v: two leases at a time: %s, and %s", slot, last, t))
			case t.Fence <= highest.Fence:
				wrong = append(wrong, fmt.Sprintf("%+v: the fence went back: %s, and then %s", slot, highest, t))
			}
			if t.Ends.After(last.Ends) {
				last = t
			}
			if t.Fence > highest.Fence {
				highest = t
			}
		}
	}
	return leases, wrong
}

func (t *told) String() string {
	return fmt.Sprintf("fence %d of %s from %s to %s", t.Fence, t.By, timeOfDay(t.Granted), timeOfDay(t.Ends))
}

func TestLedger(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	for _, test := range []struct {
		name   string
		leases []told
		wrong  string
	}{
		{"one after the other", []told{{1, at(0), at(5), "a"}, {2, at(5), at(9), "b"}}, ""},
		{"two at a time", []told{{1, at(0), at(5), "a"}, {2, at(4), at(9), "b"}}, "two leases at a time"},
		{"beside a long one", []told{{1, at(0), at(9), "a"}, {2, at(9), at(9), "b"}, {3, at(8), at(8), "a"}}, "two leases at a time"},
		{"fence goes back", []told{{2, at(0), at(5), "a"}, {1, at(6), at(9), "b"}}, "the fence went back"},
		{"the same fence", []told{{2, at(0), at(5), "a"}, {2, at(6), at(9), "b"}}, "the fence went back"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLedger()
			for _, lease := range test.leases {
				l.Grant("slot", &lease)
			}
			leases, wrong := l.Check()
			if leases != len(test.leases) || !strings.Contains(strings.Join(wrong, "\n"), test.wrong) || (test.wrong == "") != (len(wrong) == 0) {
				t.Errorf("%d leases, %q", leases, wrong)
			}
		})
	}
	l := newLedger()
	lease := &told{Fence: 1, Granted: at(0), Ends: at(5)}
	l.Grant("slot", lease)
	l.Renewed(lease, at(10))
	if ends := l.GiveBack(lease); ends != at(10) {
		t.Errorf("returned while live until %v", ends)
	}
	l.Fail("a position is %s", "missing")
	if _, wrong := l.Check(); len(wrong) != 1 {
		t.Errorf("%q", wrong)
	}
}
