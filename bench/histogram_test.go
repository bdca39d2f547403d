package bench

import (
	"math"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

func TestPercentile(t *testing.T) {
	thousand := newHistogram()
	for i := range 1000 {
		record(thousand, time.Duration(1000-i)*time.Millisecond) // 1 s … 1 ms
	}
	one := newHistogram()
	record(one, 7*time.Microsecond)
	beyond := newHistogram()
	record(beyond, -time.Second)
	record(beyond, time.Hour)
	for _, c := range []struct {
		name string
		h    *hdrhistogram.Histogram
		p    float64
		want time.Duration
	}{
		{"none", newHistogram(), 50, 0},
		{"one", one, 99, 7 * time.Microsecond},
		{"median", thousand, 50, 500 * time.Millisecond},
		{"p99", thousand, 99, 990 * time.Millisecond},
		{"p99.9", thousand, 99.9, 999 * time.Millisecond},
		{"highest", thousand, 100, time.Second},
		{"below the range", beyond, 50, 0},
		{"above the range", beyond, 100, longestLatency},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := percentile(c.h, c.p)
			if math.Abs(float64(got-c.want)) > 0.001*float64(c.want)+float64(shortestLatency) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestRecorder(t *testing.T) {
	var r recorder
	r.record(0, time.Millisecond)
	r.record(1, time.Second)
	r.record(recorderShards, time.Millisecond)
	all := r.histogram()
	if longest := percentile(all, 100); all.TotalCount() != 3 || longest < time.Second {
		t.Errorf("%d of 3, the longest %v", all.TotalCount(), longest)
	}
}
