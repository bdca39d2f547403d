package wire

import (
	"strings"
	"testing"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/reads"
)

// However long names and labels are, a page ends below MaxAnswer, and the next one begins where it
// ends.
func TestPagesEndByBytes(t *testing.T) {
	long := strings.Repeat("<\"", kvslots.MaxLabel/2)
	d := reads.Detail{Pool: reads.Pool{Name: long}, OutOfService: []reads.OutOfService{}, NextFrom: 5000, NextAfter: 5000}
	for i := range 1000 {
		d.Holders = append(d.Holders, reads.Holder{Position: i * 3, Label: long})
		d.Waiters = append(d.Waiters, reads.Waiter{Place: i + 1, Label: long})
	}
	whole := d
	Shorten(&d, MaxAnswer)
	text, err := Encode(d)
	if err != nil || len(text) > MaxAnswer || len(text) < MaxAnswer*9/10 || strings.Contains(string(text), `\u003c`) {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if n := len(d.Holders); n == 0 || d.NextFrom != whole.Holders[n].Position {
		t.Errorf("%d leases, and then from %d", n, d.NextFrom)
	}
	if n := len(d.Waiters); n == 0 || d.NextAfter != whole.Waiters[n-1].Place {
		t.Errorf("%d places, and then after %d", n, d.NextAfter)
	}
	d = whole
	if Shorten(&d, 1<<20); len(d.Holders) != 1000 || len(d.Waiters) != 1000 || d.NextFrom != 5000 || d.NextAfter != 5000 {
		t.Error("a page that fits is shortened")
	}
	if Shorten(&d, 1); len(d.Holders) != 1 || len(d.Waiters) != 1 {
		t.Error("a page is empty")
	}
	if n := (&PoolList{Pools: make([]reads.Pool, 1000)}).Fitting(MaxAnswer); n < 300 || n == 1000 {
		t.Errorf("%d pools fit", n)
	}
}
