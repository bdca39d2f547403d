package wire

import (
	"strings"
	"testing"

	"github.com/kvslots/kvslots/kvslots"
)

// However long names and labels are, a page ends below MaxAnswer, and the next one begins where it
// ends.
func TestPagesEndByBytes(t *testing.T) {
	long := strings.Repeat("<\"", kvslots.MaxLabel/2)
	d := PoolDetail{PoolInfo: PoolInfo{Name: long}, OutOfService: []OutInfo{}, NextFrom: 5000, NextAfter: 5000}
	for i := range 1000 {
		d.Leases = append(d.Leases, HolderInfo{Position: i * 3, Label: long})
		d.Line = append(d.Line, WaiterInfo{Place: i + 1, Label: long})
	}
	whole := d
	d.Shorten(MaxAnswer)
	text, err := Encode(d)
	if err != nil || len(text) > MaxAnswer || len(text) < MaxAnswer*9/10 || strings.Contains(string(text), `\u003c`) {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if n := len(d.Leases); n == 0 || d.NextFrom != whole.Leases[n].Position {
		t.Errorf("%d leases, and then from %d", n, d.NextFrom)
	}
	if n := len(d.Line); n == 0 || d.NextAfter != whole.Line[n-1].Place {
		t.Errorf("%d places, and then after %d", n, d.NextAfter)
	}
	d = whole
	if d.Shorten(1 << 20); len(d.Leases) != 1000 || len(d.Line) != 1000 || d.NextFrom != 5000 || d.NextAfter != 5000 {
		t.Error("a page that fits is shortened")
	}
	if d.Shorten(1); len(d.Leases) != 1 || len(d.Line) != 1 {
		t.Error("a page is empty")
	}
	if n := (&PoolList{Pools: make([]PoolInfo, 1000)}).Fitting(MaxAnswer); n < 300 || n == 1000 {
		t.Errorf("%d pools fit", n)
	}
}
