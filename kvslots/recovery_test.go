//go:build unix

package kvslots

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

const (
	recoveryPace = 20 * time.Millisecond
	recoveryGap  = 3 * recoveryPace // without a grant, or an answer
)

// recovering is a store, and a connection with the same servers whose writes show when NATS answers.
type recovering struct {
	*Store
	nc, plain    *nats.Conn
	link         *link // of nc
	grants, nats instants
}

// TestSoakRecovery logs for how long each store grants nothing after a fault of NATS, and how much
// of that is beyond the time in which NATS acknowledged no write by a connection of its own. It fails
// only if a store does not grant again. KVSLOTS_RECOVERY selects faults by a part of their names.
func TestSoakRecovery(t *testing.T) {
	soak(t)
	t.Run("cluster", func(t *testing.T) {
		c := &cutCluster{ProcessCluster: natstest.StartProcesses(t)}
		c.nc = c.Connect()
		c.js = natstest.JetStream(t, c.nc)
		var urls []string
		for _, s := range c.Servers {
			urls = append(urls, s.URL())
		}
		r := startRecovery(t, urls, 3)
		kill := func(n int) { c.kill(4*time.Second, n) }
		r.each([]recoveryFault{
			{"leader steps down", func() { _, _ = c.nc.Request("$JS.API.STREAM.LEADER.STEPDOWN."+bucket.StreamName, nil, time.Second) }},
			{"leader killed", func() { kill(c.leader(t)) }},
			{"follower killed", func() { kill((c.leader(t) + 1) % 3) }},
			{"leader cut off", func() { c.cut(c.leader(t), natstest.BlackHole, 8*time.Second) }},
			{"follower cut off", func() { c.cut((c.leader(t)+1)%3, natstest.BlackHole, 8*time.Second) }},
			{"connections cut", r.cut},
		})
	})
	t.Run("one server", func(t *testing.T) {
		s := natstest.StartProcess(t)
		r := startRecovery(t, []string{s.URL()}, 1)
		r.each([]recoveryFault{
			{"connections cut", r.cut},
			{"server killed", func() { s.Kill(); s.Start() }},
		})
	})
}

type recovery struct {
	t      *testing.T
	stores []*recovering
}

type recoveryFault struct {
	name string
	do   func()
}

func startRecovery(t *testing.T, urls []string, replicas int) *recovery {
	t.Helper()
	r := &recovery{t: t}
	for n := range 3 {
		n %= len(urls)
		at := strings.Join(slices.Concat(urls[n:], urls[:n]), ",")
		s := &recovering{link: new(link)}
		for _, nc := range []**nats.Conn{&s.nc, &s.plain} {
			var err error
			options := []nats.Option{nats.DontRandomize(), nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond), nats.ReconnectBufSize(-1)}
			if nc == &s.nc { // as cmd/kvslots does
				options = []nats.Option{nats.DontRandomize(), nats.MaxReconnects(-1), nats.ReconnectWait(100 * time.Millisecond), nats.SetCustomDialer(s.link)}
			}
			if *nc, err = nats.Connect(at, options...); err != nil {
				t.Fatal(err)
			}
			t.Cleanup((*nc).Close)
		}
		var err error
		if s.Store, err = Open(t.Context(), s.nc, Config{Replicas: replicas, Logger: logtest.Logger()}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close(context.Background()) })
		r.stores = append(r.stores, s)
	}
	pool := newPool(t, r.stores[0].Store, MaxCount)
	stop := make(chan struct{})
	var all sync.WaitGroup
	t.Cleanup(func() { close(stop); all.Wait() })
	for i, s := range r.stores {
		all.Go(func() { s.borrow(pool, stop) })
		s.ask(t, fmt.Sprint("recovery.", i))
		all.Go(func() { s.askUntil(stop, fmt.Sprint("recovery.", i)) })
	}
	return r
}

// borrow notes when the store grants.
func (s *recovering) borrow(pool uuid.UUID, stop chan struct{}) {
	var all sync.WaitGroup
	defer all.Wait()
	running := make(chan struct{}, 4*maxProbes)
	for {
		select {
		case <-stop:
			return
		case <-time.After(recoveryPace):
		}
		select {
		case running <- struct{}{}:
		default:
			continue
		}
		all.Go(func() {
			defer func() { <-running }()
			l, err := s.Borrow(context.Background(), pool, WithFixedTTL(20*time.Second), WithWait(0))
			if err == nil {
				s.grants.add()
				_, _ = s.Return(context.Background(), pool, l.ID())
			}
		})
	}
}

func (s *recovering) inbox(subject string) string { return "_RECOVERY." + subject }

// ask notes when NATS acknowledges the writes of askUntil.
func (s *recovering) ask(t *testing.T, subject string) {
	t.Helper()
	if _, err := s.plain.Subscribe(s.inbox(subject), func(m *nats.Msg) {
		if strings.Contains(string(m.Data), `"seq":`) {
			s.nats.add()
		}
	}); err != nil {
		t.Fatal(err)
	}
}

func (s *recovering) askUntil(stop chan struct{}, subject string) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(recoveryPace):
			_ = s.plain.PublishRequest(bucket.SubjectPrefix+subject, s.inbox(subject), nil)
		}
	}
}

func (r *recovery) cut() {
	for _, s := range r.stores {
		s.link.cut()
	}
}

// each injects each fault some times, and logs what was measured.
func (r *recovery) each(faults []recoveryFault) {
	r.t.Logf("%-24s %4s | %-18s | %-18s | %-18s", "s: median, 90 %, max", "n", "NATS away", "no grants", "behind NATS")
	const rounds = 8
	only := os.Getenv("KVSLOTS_RECOVERY")
	var behindAll []time.Duration
	for _, f := range faults {
		if !strings.Contains(f.name, only) {
			continue
		}
		var away, outage, late []time.Duration
		for range rounds {
			r.lends(time.Now())
			time.Sleep(time.Second)
			began := time.Now()
			f.do()
			r.lends(time.Now())
			time.Sleep(3 * time.Second)
			now := time.Now()
			for _, s := range r.stores {
				gaps, without := s.grants.gaps(began, now, recoveryGap), s.nats.gaps(began, now, recoveryGap)
				away, outage, late = append(away, longest(without)), append(outage, longest(gaps)), append(late, behind(gaps, without))
				if d := behind(gaps, without); d > time.Second {
					r.t.Logf("%s: %v behind at %s", f.name, d, timeOfDay(began))
				}
			}
		}
		behindAll = append(behindAll, late...)
		r.t.Logf("%-24s %4d | %s | %s | %s", f.name, len(late), quantiles(away), quantiles(outage), quantiles(late))
	}
	if len(behindAll) > 0 {
		r.t.Logf("behind NATS in all: %s", quantiles(behindAll))
	}
}

// lends waits until each store has granted something after a time.
func (r *recovery) lends(after time.Time) {
	r.t.Helper()
	for _, s := range r.stores {
		eventually(r.t, "a store grants again", func() bool { _, ok := s.grants.after(after); return ok })
	}
}

func quantiles(all []time.Duration) string {
	slices.Sort(all)
	return fmt.Sprintf("%5.2f %5.2f %5.2f", all[len(all)/2].Seconds(), all[len(all)*9/10].Seconds(), all[len(all)-1].Seconds())
}
