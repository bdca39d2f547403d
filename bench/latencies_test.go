package bench

import (
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	var hundred Latencies
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i)) // 100 … 1
	}
	for _, c := range []struct {
		name string
		l    Latencies
		p    float64
		want time.Duration
	}{
		{"none", nil, 50, 0},
		{"one", Latencies{7}, 99, 7},
		{"lowest", hundred, 0, 1},
		{"median", hundred, 50, 50},
		{"p99", hundred, 99, 99},
		{"highest", hundred, 100, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.l.Percentile(c.p); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}
