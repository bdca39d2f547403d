//go:build unix

package kvslots

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

const (
	probePace = 50 * time.Millisecond
	maxProbes = 128              // of one store at a time: those of more than patience
	maxOutage = 30 * time.Second // after a fault
	stalled   = 2 * time.Minute  // after which a store that grants nothing is not waited for
	maxCall   = 30 * time.Second // beyond its wait
)

// hotCounts are the counts of the pools for which clients contend.
var hotCounts = []int{1, 3, 5}

// slotOf is a position of a pool, or a lock.
type slotOf struct {
	pool     uuid.UUID
	lock     string
	position int
}

// cutStore is a store at one of the servers, which may connect to the others.
type cutStore struct {
	*Store
	name   string
	nc     *nats.Conn
	link   *link // of nc
	grants instants
}

// cutSoak is a store at each server, and its clients.
type cutSoak struct {
	t       *testing.T
	cluster *cutCluster
	stores  []*cutStore
	ledger  *natstest.Ledger
	pools   []uuid.UUID
	probes  uuid.UUID
	seed    uint64
	stop    chan struct{}
	running sync.WaitGroup

	mu       sync.Mutex
	calls    map[string]int
	failures map[string]int // by call and error
	slowest  map[string]time.Duration
}

// Routes between three servers are cut, and servers killed and paused, while clients at all of
// them borrow and lock. No slot is lent twice at a time, and every store serves again.
func TestSoakRouteCuts(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three servers")
	}
	t.Parallel()
	s := startCutSoak(t, *historySeed)
	var histories []*history
	watched := observe(t, s.cluster.nc)
	deck := []int(nil)
	r := rand.New(rand.NewPCG(s.seed, 1))
	for until := time.Now().Add(cutSoakTime()); ; {
		if len(deck) == 0 {
			deck = r.Perm(len(serverFaults))
			if !soaking {
				deck = []int{0}
			}
		}
		h := s.round(watched, serverFaults[deck[0]], r, uint64(len(histories)))
		if histories, deck = append(histories, h), deck[1:]; !time.Now().Before(until) {
			break
		}
	}
	close(s.stop)
	s.running.Wait()
	s.report()
	s.nothingLeft(histories)
	checkCutHistories(t, histories)
}

// cutSoakTime is how long faults are injected: once in a usual test, and in a soak for ten
// minutes or what KVSLOTS_ROUTE_CUTS says.
func cutSoakTime() time.Duration {
	if !soaking {
		return 0
	}
	if text := os.Getenv("KVSLOTS_ROUTE_CUTS"); text != "" {
		if d, err := time.ParseDuration(text); err == nil {
			return d
		}
	}
	return 10 * time.Minute
}

// newCutSoak starts the servers, and opens the stores.
func newCutSoak(t *testing.T, seed uint64) *cutSoak {
	t.Helper()
	t.Logf("seed %d", seed)
	c := &cutCluster{ProcessCluster: natstest.StartProcesses(t)}
	c.nc = c.Connect()
	c.js = natstest.JetStream(t, c.nc)
	s := &cutSoak{
		t: t, cluster: c, seed: seed, ledger: natstest.NewLedger(), stop: make(chan struct{}),
		calls: map[string]int{}, failures: map[string]int{}, slowest: map[string]time.Duration{},
	}
	for n := range c.Servers {
		s.stores = append(s.stores, s.open(n))
	}
	return s
}

func startCutSoak(t *testing.T, seed uint64) *cutSoak {
	t.Helper()
	s := newCutSoak(t, seed)
	s.probes = newPool(t, s.stores[0].Store, MaxCount)
	for _, count := range hotCounts {
		s.pools = append(s.pools, newPool(t, s.stores[0].Store, count))
	}
	for i, store := range s.stores {
		s.running.Go(func() { s.probe(store) })
		for n := range 8 {
			s.running.Go(func() { s.borrower(store, s.random(100*i+n)) })
		}
		for n := range 3 {
			s.running.Go(func() { s.locker(store, s.random(100*i+50+n)) })
		}
		s.running.Go(func() { s.registrar(store) })
	}
	return s
}

func (s *cutSoak) random(stream int) *rand.Rand {
	return rand.New(rand.NewPCG(s.seed, uint64(1000+stream)))
}

// open opens a store at server n, as a gateway does that is given the URLs of all.
func (s *cutSoak) open(n int) *cutStore {
	s.t.Helper()
	var urls []string
	for i := range s.cluster.Servers {
		urls = append(urls, s.cluster.Servers[(n+i)%len(s.cluster.Servers)].URL())
	}
	l := new(link)
	nc, err := nats.Connect(strings.Join(urls, ","), nats.DontRandomize(), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond), nats.SetCustomDialer(l))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	store := &cutStore{name: fmt.Sprint("store ", n), nc: nc, link: l}
	store.Store, err = Open(s.t.Context(), nc, Config{Replicas: len(s.cluster.Servers), ResumeGrace: DefaultResumeGrace, Logger: logtest.Logger()})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = store.Close(context.Background()) })
	return store
}

// round injects one fault while clients also make a history of their own.
func (s *cutSoak) round(watched *observer, f serverFault, r *rand.Rand, number uint64) *history {
	t, c := s.t, s.cluster
	h := newHistory(t, 9)
	h.lagging = true
	ended := make(chan struct{})
	var clients sync.WaitGroup
	for i := range 6 * len(s.stores) {
		client := &client{history: h, id: i, store: s.stores[i%len(s.stores)].Store, rand: rand.New(rand.NewPCG(s.seed+number, uint64(i)))}
		clients.Go(func() {
			for s.pause(ended, time.Duration(5+client.rand.IntN(30))*time.Millisecond) {
				client.act(t.Context())
			}
		})
	}
	time.Sleep(time.Second)
	leader := c.leader(t)
	follower := (leader + 1 + r.IntN(2)) % 3
	d := f.least*time.Second + time.Duration(r.Int64N(int64((f.most-f.least)*time.Second)+1))
	quiet := 4 * time.Second
	if !soaking {
		d, quiet = 3*time.Second, time.Second
	}
	began := time.Now()
	f.do(c, leader, follower, d)
	end := time.Now()
	for _, store := range s.stores {
		for _, ok := store.grants.after(end); !ok; _, ok = store.grants.after(end) {
			if time.Sleep(probePace); time.Since(end) > stalled {
				break
			}
		}
	}
	time.Sleep(quiet)
	close(ended)
	clients.Wait()
	for _, store := range s.stores {
		if at, ok := store.grants.after(end); soaking && (!ok || at.Sub(end) > maxOutage) {
			t.Errorf("%s granted nothing for %v after %q ended at %s", store.name, maxOutage, f.name, timeOfDay(end))
		}
	}
	if _, wrong := s.ledger.Check(); len(wrong) > 0 {
		t.Errorf("after %q at %s: %d violations, the first ones:\n%s", f.name, timeOfDay(began), len(wrong), strings.Join(wrong[:min(len(wrong), 20)], "\n"))
	}
	h.expiries(watched, time.Now().Add(time.Hour))
	s.goHome()
	return h
}

// report logs how often clients have called.
func (s *cutSoak) report() {
	leases, _ := s.ledger.Check()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.t.Logf("%d leases; calls %v; failures %v; longest beyond their waits %v", leases, s.calls, s.failures, s.slowest)
	for _, store := range s.stores {
		s.t.Logf("%s is at %s after %d reconnects, and had %+v", store.name, store.nc.ConnectedServerName(), store.nc.Stats().Reconnects, counters(store.Store))
	}
}

func timeOfDay(t time.Time) string { return t.Format("15:04:05.000") }

// goHome has each store connect to its own server again.
func (s *cutSoak) goHome() {
	for i, store := range s.stores {
		home := s.cluster.Servers[i].Name()
		for range 5 * len(s.stores) {
			if store.nc.ConnectedServerName() == home {
				break
			}
			_ = store.nc.ForceReconnect()
			time.Sleep(probePace)
		}
	}
}
