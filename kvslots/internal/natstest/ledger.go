package natstest

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Ledger records the leases that clients were told, and checks that no two leases of one slot
// were live at a time, and that their fences rise. It is safe for concurrent use.
type Ledger struct {
	mu    sync.Mutex
	slots map[any][]*Told
	wrong []string
}

// Told is a lease as its client knows it. The lease is certainly live from Granted to Ends.
type Told struct {
	Fence         uint64
	Granted, Ends time.Time
	By            string // who granted it
}

func NewLedger() *Ledger { return &Ledger{slots: map[any][]*Told{}} }

// Grant records a lease of a slot, which is any comparable value.
func (l *Ledger) Grant(slot any, lease *Told) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slots[slot] = append(l.slots[slot], lease)
}

// Renewed records that a lease lasts longer.
func (l *Ledger) Renewed(lease *Told, ends time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lease.Ends = ends
}

// GiveBack records that a lease is about to be returned, and returns until when the client
// knew it to be live.
func (l *Ledger) GiveBack(lease *Told) (ends time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ends = lease.Ends
	if now := time.Now(); now.Before(ends) {
		lease.Ends = now
	}
	return ends
}

// Fail records a violation that the caller has seen.
func (l *Ledger) Fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong = append(l.wrong, time.Now().Format(clock)+" "+fmt.Sprintf(format, args...))
}

// Check returns how many leases there were, and every violation.
func (l *Ledger) Check() (leases int, wrong []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	wrong = slices.Clone(l.wrong)
	for slot, list := range l.slots {
		leases += len(list)
		slices.SortFunc(list, func(a, b *Told) int { return a.Granted.Compare(b.Granted) })
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

// clock is how violations show times.
const clock = "15:04:05.000"

func (t *Told) String() string {
	return fmt.Sprintf("fence %d of %s from %s to %s", t.Fence, t.By, t.Granted.Format(clock), t.Ends.Format(clock))
}
