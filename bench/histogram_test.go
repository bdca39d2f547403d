package bench

import (
	"math"
	"testing"
	"time"
)

func TestHistogramPercentile(t *testing.T) {
	thousand := &Histogram{}
	for i := range 1000 {
		thousand.Record(time.Duration(1000-i) * time.Millisecond) // 1 s … 1 ms
	}
	one := &Histogram{}
	one.Record(7 * time.Microsecond)
	beyond := &Histogram{}
	beyond.Record(-time.Second)
	beyond.Record(time.Hour)
	for _, c := range []struct {
		name string
		h    *Histogram
		p    float64
		want time.Duration
	}{
		{"none", &Histogram{}, 50, 0},
		{"nil", nil, 50, 0},
		{"one", one, 99, 7 * time.Microsecond},
		{"median", thousand, 50, 500 * time.Millisecond},
		{"p99", thousand, 99, 990 * time.Millisecond},
		{"p99.9", thousand, 99.9, 999 * time.Millisecond},
		{"highest", thousand, 100, time.Second},
		{"below the range", beyond, 50, 0},
		{"above the range", beyond, 100, longestLatency},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.h.Percentile(c.p)
			if math.Abs(float64(got-c.want)) > 0.001*float64(c.want)+float64(shortestLatency) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestHistogramMerge(t *testing.T) {
	var a, b Histogram
	a.Record(time.Millisecond)
	b.Record(time.Second)
	a.Merge(&b)
	a.Merge(nil)
	a.Merge(&Histogram{})
	if a.Count() != 2 || b.Count() != 1 || a.Max() < time.Second {
		t.Errorf("%d of 2, the longest %v", a.Count(), a.Max())
	}
}

func TestHistogramDistribution(t *testing.T) {
	var h Histogram
	for i := range 10 {
		h.Record(time.Duration(i+1) * time.Millisecond)
	}
	points := h.Distribution()
	if len(points) != 10 || points[9].Share != 1 || points[0].Share != 0.1 {
		t.Fatalf("%v", points)
	}
	for i := 1; i < len(points); i++ {
		if points[i].Latency <= points[i-1].Latency || points[i].Share <= points[i-1].Share {
			t.Errorf("%v does not ascend", points)
		}
	}
}
