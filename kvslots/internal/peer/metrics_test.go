package peer

import (
	"testing"
	"time"
)

// A duration is counted in the first bucket whose bound it does not exceed.
func TestDurations(t *testing.T) {
	for _, c := range []struct {
		of     time.Duration
		bucket int // -1: none
	}{
		{-time.Second, 0},
		{0, 0},
		{128 * time.Microsecond, 0},
		{128*time.Microsecond + 1, 1},
		{256 * time.Microsecond, 1},
		{time.Second, 13},
		{19 * time.Hour, 29},
		{20 * time.Hour, -1},
	} {
		var h Durations
		h.add(c.of)
		for i, n := range h.Buckets {
			if (n == 1) != (i == c.bucket) {
				t.Errorf("%s: bucket %d, up to %s, has %d", c.of, i, h.Bound(i), n)
			}
		}
		if h.Count != 1 || h.Sum != c.of {
			t.Errorf("%s: count %d, sum %s", c.of, h.Count, h.Sum)
		}
	}
}
