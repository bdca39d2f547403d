package bench

import (
	"context"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestArrivalTimes(t *testing.T) {
	times := arrivalTimes(1000, 100*time.Second, 1)
	if !slices.IsSorted(times) || times[len(times)-1] >= 100*time.Second {
		t.Error("the times do not ascend, or go beyond the end")
	}
	if n := float64(len(times)); math.Abs(n-100_000) > 5*math.Sqrt(100_000) {
		t.Errorf("%v arrivals, want about 100,000", n)
	}
	// Of a Poisson process, a share of 1/e of the gaps is longer than the mean.
	longer := 0
	for i := 1; i < len(times); i++ {
		if times[i]-times[i-1] > time.Millisecond {
			longer++
		}
	}
	if share := float64(longer) / float64(len(times)); math.Abs(share-1/math.E) > 0.01 {
		t.Errorf("a share of %.3f of the gaps is longer than the mean, want %.3f", share, 1/math.E)
	}
	if !slices.Equal(times, arrivalTimes(1000, 100*time.Second, 1)) {
		t.Error("the same seed gave another schedule")
	}
	if n := len(arrivalTimes(0.001, time.Second, 1)); n != 1 {
		t.Errorf("%d arrivals, want one", n)
	}
}

// A server stalls for half a second. A closed loop would see only the two operations in
// flight. The latencies of all 50 arrivals during the stall must include it.
func TestOpenLoopChargesArrivalsToAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var times []time.Duration
		for i := range 100 {
			times = append(times, time.Duration(i)*10*time.Millisecond)
		}
		running := make(chan struct{})
		time.AfterFunc(500*time.Millisecond, func() { close(running) })
		s := openLoop(t.Context(), 2, times, func(context.Context, int) error {
			<-running
			return nil
		})
		if s.Operations != 100 || s.Errors != 0 {
			t.Fatalf("%d operations, %d errors", s.Operations, s.Errors)
		}
		for _, c := range []struct {
			p    float64
			want time.Duration
		}{{100, 500 * time.Millisecond}, {75, 250 * time.Millisecond}, {50, 0}} {
			if got := percentile(s.Latency, c.p); math.Abs(float64(got-c.want)) > float64(time.Millisecond) {
				t.Errorf("p%v %v, want %v", c.p, got, c.want)
			}
		}
		if got := s.Extra["service_p50_us"]; got > 1 {
			t.Errorf("the median operation took %v µs from when it was sent, want 0", got)
		}
		if got := s.Extra["service_p99_us"]; got < 489_000 || got > 501_000 {
			t.Errorf("the slowest operations took %v µs from when they were sent, want about 490,000", got)
		}
	})
}

func TestOpenLoopEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Millisecond)
		defer cancel()
		s := openLoop(ctx, 1, []time.Duration{0, 10 * time.Millisecond, time.Hour}, func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		})
		if s.Operations != 0 || s.Errors != 0 { // operations that the end of ctx interrupts are no errors
			t.Errorf("%d operations, %d errors", s.Operations, s.Errors)
		}
	})
}
