package server

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kvslots/kvslots/kvslots/logtest"
)

func TestHeedSignals(t *testing.T) {
	const pause = signalPause
	for _, c := range []struct {
		name string
		at   []time.Duration // when signals come
		want []time.Duration // when steps are called
	}{
		{"one", []time.Duration{0}, []time.Duration{0}},
		{"two at once", []time.Duration{0, 0}, []time.Duration{0}},
		{"within the pause", []time.Duration{0, pause - 1}, []time.Duration{0}},
		{"after the pause", []time.Duration{0, pause + 1}, []time.Duration{0, pause + 1}},
		{"an ignored one does not prolong it", []time.Duration{0, pause - 1, pause + 1}, []time.Duration{0, pause + 1}},
		{"two pairs", []time.Duration{0, 0, 5 * pause, 5 * pause}, []time.Duration{0, 5 * pause}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var got []time.Duration
				step := func() { got = append(got, time.Since(began)) }
				signals, quit, done := make(chan os.Signal), make(chan struct{}), make(chan struct{})
				logged := &logtest.Log{}
				go func() {
					defer close(done)
					heedSignals(signals, quit, logged.Logger(), step, step)
				}()
				for _, at := range c.at {
					time.Sleep(time.Until(began.Add(at)))
					signals <- syscall.SIGTERM
				}
				synctest.Wait()
				close(quit)
				<-done
				if !slices.Equal(got, c.want) {
					t.Errorf("steps at %v, want %v", got, c.want)
				}
				if ignored := strings.Count(logged.String(), "signal ignored"); ignored != len(c.at)-len(c.want) {
					t.Errorf("%d ignored signals logged:\n%s", ignored, logged)
				}
			})
		})
	}
}

// heedSignals returns after the last step and its pause: further signals kill the process.
func TestHeedSignalsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal, 1)
		signals <- syscall.SIGTERM
		began := time.Now()
		heedSignals(signals, nil, logtest.Logger(), func() {})
		if took := time.Since(began); took != signalPause {
			t.Errorf("ended after %s", took)
		}
	})
}
