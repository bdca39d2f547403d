package natstest

import (
	"strings"
	"testing"
	"time"
)

func TestLedger(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	for _, test := range []struct {
		name   string
		leases []Told
		wrong  string
	}{
		{"one after the other", []Told{{1, at(0), at(5), "a"}, {2, at(5), at(9), "b"}}, ""},
		{"two at a time", []Told{{1, at(0), at(5), "a"}, {2, at(4), at(9), "b"}}, "two leases at a time"},
		{"beside a long one", []Told{{1, at(0), at(9), "a"}, {2, at(9), at(9), "b"}, {3, at(8), at(8), "a"}}, "two leases at a time"},
		{"fence goes back", []Told{{2, at(0), at(5), "a"}, {1, at(6), at(9), "b"}}, "the fence went back"},
		{"the same fence", []Told{{2, at(0), at(5), "a"}, {2, at(6), at(9), "b"}}, "the fence went back"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := NewLedger()
			for _, lease := range test.leases {
				l.Grant("slot", &lease)
			}
			leases, wrong := l.Check()
			if leases != len(test.leases) || !strings.Contains(strings.Join(wrong, "\n"), test.wrong) || (test.wrong == "") != (len(wrong) == 0) {
				t.Errorf("%d leases, %q", leases, wrong)
			}
		})
	}
	l := NewLedger()
	lease := &Told{Fence: 1, Granted: at(0), Ends: at(5)}
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
