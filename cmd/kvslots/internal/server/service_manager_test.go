package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

func TestWatchdog(t *testing.T) {
	stuck := make(chan struct{})
	for _, c := range []struct {
		name  string
		alive func(ctx context.Context) error
		want  int // signs of life in a minute, of a watchdog of 20 s
	}{
		{"alive", func(context.Context) error { return nil }, 6},
		{"failing", func(context.Context) error { return errors.New("no answer") }, 0},
		{"too late", func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}, 0},
		{"stuck", func(context.Context) error { <-stuck; return nil }, 0},
		{"slow", func(context.Context) error { time.Sleep(4 * time.Second); return nil }, 5}, // the sixth is due after the minute
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stuck = make(chan struct{})
				var told []string
				m := &serviceManager{watchdog: 20 * time.Second, log: logtest.Logger(), send: func(state string) error {
					told = append(told, state)
					return nil
				}}
				stop := m.watch(c.alive)
				time.Sleep(time.Minute + time.Second)
				stop()
				close(stuck)
				time.Sleep(time.Minute) // in which all calls return
				if len(told) != c.want || c.want > 0 && told[0] != "WATCHDOG=1" {
					t.Errorf("told %q, want %d", told, c.want)
				}
			})
		})
	}
}

// The watchdog finds a store and an embedded server that are stuck, and does not mind a
// store that is merely not ready.
func TestAlive(t *testing.T) {
	s := settingsOf(t, "--data-dir", t.TempDir())
	b, err := embedNATS(t.Context(), s, logtest.Logger())
	kvslotstest.Must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := b.alive(readiness{errors.New("no leader")})(ctx); err != nil {
		t.Errorf("a store that is not ready: %v", err)
	}
	if err := (&backend{}).alive(readiness{})(ctx); err != nil {
		t.Errorf("an external NATS: %v", err)
	}
	kvslotstest.Must(t, b.close())
	if err := b.alive(readiness{})(ctx); err == nil {
		t.Error("an embedded server that does not answer counts as alive")
	}
}

// readiness is the Ready of a store.
type readiness struct{ err error }

func (r readiness) Ready() error { return r.err }

func TestNewServiceManager(t *testing.T) {
	pid := strconv.Itoa(os.Getpid())
	for _, c := range []struct {
		env  settings.Environment
		want time.Duration
	}{
		{nil, 0},
		{settings.Environment{"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": pid}, 30 * time.Second},
		{settings.Environment{"WATCHDOG_USEC": "30000000"}, 30 * time.Second},
		{settings.Environment{"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1" + pid}, 0},
		{settings.Environment{"WATCHDOG_USEC": "0"}, 0},
		{settings.Environment{"WATCHDOG_USEC": "-5"}, 0},
		{settings.Environment{"WATCHDOG_USEC": "soon"}, 0},
		{settings.Environment{"WATCHDOG_USEC": "9223372036854775807"}, 0},
	} {
		t.Run(fmt.Sprint(c.env), func(t *testing.T) {
			if m := newServiceManager(c.env, logtest.Logger()); m.watchdog != c.want || m.send != nil {
				t.Errorf("got %+v, want %s", m, c.want)
			}
		})
	}
}
