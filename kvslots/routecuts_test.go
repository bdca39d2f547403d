//go:build unix

package kvslots

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

const (
	probePace = 50 * time.Millisecond
	maxProbes = 128              // of one store at a time: those of more than patience
	natsGap   = 6 * probePace    // without an answer: NATS is away
	grantGap  = 4 * probePace    // without a grant: a store is away
	maxOutage = 30 * time.Second // after a fault
	stalled   = 2 * time.Minute  // after which a store that grants nothing is not waited for
	maxCall   = 30 * time.Second // beyond its wait
)

// hotCounts are the counts of the pools for which clients contend.
var hotCounts = []int{1, 3, 5}

// serverFault is a fault of servers or their routes. do injects it, and ends it after about
// the given time.
type serverFault struct {
	name        string
	least, most time.Duration
	do          func(c *cutCluster, leader, follower int, d time.Duration)
}

var serverFaults = []serverFault{
	{"leader refused", 5, 13, func(c *cutCluster, leader, _ int, d time.Duration) { c.cut(leader, kvslotstest.Refuse, d) }},
	{"leader black-holed", 5, 13, func(c *cutCluster, leader, _ int, d time.Duration) { c.cut(leader, kvslotstest.BlackHole, d) }},
	{"leader reset", 3, 5, func(c *cutCluster, leader, _ int, d time.Duration) { c.reset(leader, d) }},
	{"follower refused", 5, 13, func(c *cutCluster, _, follower int, d time.Duration) { c.cut(follower, kvslotstest.Refuse, d) }},
	{"follower black-holed", 5, 13, func(c *cutCluster, _, follower int, d time.Duration) { c.cut(follower, kvslotstest.BlackHole, d) }},
	{"follower reset", 3, 5, func(c *cutCluster, _, follower int, d time.Duration) { c.reset(follower, d) }},
	{"leader killed", 1, 8, func(c *cutCluster, leader, _ int, d time.Duration) { c.kill(d, leader) }},
	{"follower killed", 1, 8, func(c *cutCluster, _, follower int, d time.Duration) { c.kill(d, follower) }},
	{"all killed", 1, 3, func(c *cutCluster, _, _ int, d time.Duration) { c.kill(d, 0, 1, 2) }},
	{"leader paused", 3, 10, func(c *cutCluster, leader, _ int, d time.Duration) {
		c.Servers[leader].Pause()
		time.Sleep(d)
		c.Servers[leader].Resume()
	}},
	{"stepdowns", 3, 5, func(c *cutCluster, _, _ int, d time.Duration) {
		for range 3 {
			_, _ = c.nc.Request("$JS.API.STREAM.LEADER.STEPDOWN."+bucket.StreamName, nil, time.Second)
			time.Sleep(d / 3)
		}
	}},
}

// cutCluster is a cluster of servers whose faults a test draws.
type cutCluster struct {
	*kvslotstest.ProcessCluster
	nc *nats.Conn // to any server
	js jetstream.JetStream
}

func (c *cutCluster) cut(n int, how kvslotstest.Cut, d time.Duration) {
	c.Cut(n, how)
	time.Sleep(d)
	c.Heal(n)
}

func (c *cutCluster) reset(n int, d time.Duration) {
	for range 3 {
		c.Reset(n)
		time.Sleep(d / 3)
	}
}

func (c *cutCluster) kill(d time.Duration, servers ...int) {
	for _, n := range servers {
		c.Servers[n].Kill()
	}
	time.Sleep(d)
	for _, n := range servers {
		c.Servers[n].Start()
	}
}

// leader returns the number of the server that leads the bucket's stream.
func (c *cutCluster) leader(t *testing.T) (n int) {
	t.Helper()
	eventually(t, "the stream has a leader", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		stream, err := c.js.Stream(ctx, bucket.StreamName)
		if err != nil || stream.CachedInfo().Cluster == nil || stream.CachedInfo().Cluster.Leader == "" {
			return false
		}
		n = c.Number(stream.CachedInfo().Cluster.Leader)
		return true
	})
	return n
}

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
	grants instants
}

// cutSoak is a store at each server, its clients, and what was measured.
type cutSoak struct {
	t       *testing.T
	cluster *cutCluster
	stores  []*cutStore
	nats    instants   // answers of NATS to writes, by any server
	meta    []instants // answers of the meta leader, which creates consumers, by server
	ledger  *kvslotstest.Ledger
	pools   []uuid.UUID
	probes  uuid.UUID
	seed    uint64
	stop    chan struct{}
	running sync.WaitGroup

	mu       sync.Mutex
	calls    map[string]int
	failures map[string]int // by call and error
	slowest  map[string]time.Duration
	measured []measurement
}

// measurement is what one fault was to one store.
type measurement struct {
	fault       string
	at          time.Time
	there       bool          // whether the store was connected to the server that the fault met
	nats        time.Duration // the longest time without an answer of NATS
	meta        time.Duration // the longest time without an answer of the meta leader
	outage      time.Duration // the longest time without a grant
	behind      time.Duration // the longest time without a grant while NATS answered writes
	behindAll   time.Duration // the same while the meta leader answered, too
	afterEnd    time.Duration // from the end of the fault to the next grant
	reconnects  uint64
	unavailable int // calls at all stores
}

// Routes between three servers are cut, and servers killed and paused, while clients at all of
// them borrow and lock. No slot is lent twice at a time, and every store serves again. A soak
// logs for each fault how long each store granted nothing: "behind" is without the times in
// which NATS acknowledged no write, "both" also without those in which the meta leader, which
// creates consumers, did not answer.
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

func startCutSoak(t *testing.T, seed uint64) *cutSoak {
	t.Helper()
	t.Logf("seed %d", seed)
	c := &cutCluster{ProcessCluster: kvslotstest.StartProcesses(t)}
	c.nc = c.Connect()
	var err error
	if c.js, err = jetstream.New(c.nc); err != nil {
		t.Fatal(err)
	}
	s := &cutSoak{
		t: t, cluster: c, seed: seed, ledger: kvslotstest.NewLedger(), stop: make(chan struct{}),
		calls: map[string]int{}, failures: map[string]int{}, slowest: map[string]time.Duration{},
	}
	for n := range c.Servers {
		s.stores = append(s.stores, s.open(n))
	}
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
	s.meta = make([]instants, len(c.Servers))
	for n := range c.Servers {
		s.askNATS(n)
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
	nc, err := nats.Connect(strings.Join(urls, ","), nats.DontRandomize(), nats.MaxReconnects(-1), nats.ReconnectWait(250*time.Millisecond))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	store := &cutStore{name: fmt.Sprint("store ", n), nc: nc}
	store.Store, err = Open(s.t.Context(), nc, Config{Replicas: len(s.cluster.Servers), Logger: logtest.Logger()})
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
	before := s.before()
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
	s.measure(f, before, began, end, leader, follower)
	if _, wrong := s.ledger.Check(); len(wrong) > 0 {
		t.Errorf("after %q at %s: %d violations, the first ones:\n%s", f.name, clock(began), len(wrong), strings.Join(wrong[:min(len(wrong), 20)], "\n"))
	}
	h.expiries(watched, time.Now().Add(time.Hour))
	s.goHome()
	return h
}

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

type beforeFault struct {
	servers     []string
	reconnects  []uint64
	unavailable int
}

func (s *cutSoak) before() (b beforeFault) {
	for _, store := range s.stores {
		b.servers = append(b.servers, store.nc.ConnectedServerName())
		b.reconnects = append(b.reconnects, store.nc.Stats().Reconnects)
	}
	b.unavailable = s.unavailable()
	return b
}

func (s *cutSoak) unavailable() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for what, times := range s.failures {
		if strings.HasSuffix(what, ErrUnavailable.Error()) {
			n += times
		}
	}
	return n
}

func (s *cutSoak) measure(f serverFault, before beforeFault, began, end time.Time, leader, follower int) {
	met := []string{s.cluster.Servers[leader].Name()}
	switch {
	case strings.HasPrefix(f.name, "follower"):
		met[0] = s.cluster.Servers[follower].Name()
	case f.name == "all killed":
		met = before.servers
	}
	now := time.Now()
	var meta []*instants // a meta leader that is cut off goes on answering
	for n := range s.meta {
		if len(met) > 1 || met[0] != s.cluster.Servers[n].Name() {
			meta = append(meta, &s.meta[n])
		}
	}
	away, headless := s.nats.gaps(began, now, natsGap), merged(meta).gaps(began, now, natsGap)
	for i, store := range s.stores {
		gaps := store.grants.gaps(began, now, grantGap)
		m := measurement{
			fault: f.name, at: began, there: slices.Contains(met, before.servers[i]),
			nats: longest(away), meta: longest(headless), outage: longest(gaps), behind: behind(gaps, away), behindAll: behind(gaps, union(away, headless)),
			reconnects: store.nc.Stats().Reconnects - before.reconnects[i], unavailable: s.unavailable() - before.unavailable,
		}
		at, ok := store.grants.after(end)
		if m.afterEnd = at.Sub(end); !ok {
			m.afterEnd = now.Sub(end)
		}
		if soaking && m.afterEnd > maxOutage {
			s.t.Errorf("%s granted nothing for %v after %q ended at %s", store.name, m.afterEnd, f.name, clock(end))
		}
		s.measured = append(s.measured, m)
		s.t.Logf("%s %-20s %4.1fs %s at %s (met: %-5v): NATS away %5.2fs, meta %5.2fs, outage %5.2fs, behind %5.2fs, both %5.2fs, after end %5.2fs, reconnects %d, unavailable %d",
			clock(began), f.name, end.Sub(began).Seconds(), store.name, before.servers[i], m.there, m.nats.Seconds(), m.meta.Seconds(), m.outage.Seconds(),
			m.behind.Seconds(), m.behindAll.Seconds(), m.afterEnd.Seconds(), m.reconnects, m.unavailable)
	}
}

// pause sleeps, and reports whether ended is still open.
func (s *cutSoak) pause(ended chan struct{}, d time.Duration) bool {
	select {
	case <-ended:
		return false
	case <-time.After(d):
		return true
	}
}

func clock(t time.Time) string { return t.Format("15:04:05.000") }

// count records the outcome of a call, and reports whether it succeeded.
func (s *cutSoak) count(what string, began time.Time, wait time.Duration, err error) bool {
	took := time.Since(began)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[what]++
	s.slowest[what] = max(s.slowest[what], took-wait)
	if err != nil {
		text := err.Error()
		for _, known := range []error{ErrUnavailable, ErrNoSlot, ErrNotHeld, ErrSessionGone, ErrNoPool} {
			if errors.Is(err, known) {
				text = known.Error()
			}
		}
		s.failures[what+": "+text]++
	}
	if soaking && took > wait+maxCall {
		s.t.Errorf("%s took %v at %s: %v", what, took, clock(time.Now()), err)
	}
	return err == nil
}

// askNATS measures when NATS answers writes to the bucket's stream at a server.
func (s *cutSoak) askNATS(n int) {
	s.t.Helper()
	p := s.cluster.Servers[n]
	nc := p.Connect()
	inbox := nc.NewInbox()
	if _, err := nc.Subscribe(inbox, func(m *nats.Msg) {
		switch text := string(m.Data); {
		case strings.Contains(text, `"error"`):
		case strings.Contains(text, `"seq":`):
			s.nats.add()
		case strings.Contains(text, `"streams":`):
			s.meta[n].add()
		}
	}); err != nil {
		s.t.Fatal(err)
	}
	s.running.Go(func() {
		for s.pause(s.stop, probePace) {
			if nc.IsConnected() {
				_ = nc.PublishRequest(bucket.SubjectPrefix+"soak."+p.Name(), inbox, nil)
				_ = nc.PublishRequest("$JS.API.STREAM.NAMES", inbox, nil) // the meta leader answers
			}
		}
	})
}

// probe measures when a store grants.
func (s *cutSoak) probe(store *cutStore) {
	var all sync.WaitGroup
	defer all.Wait()
	running := make(chan struct{}, maxProbes)
	for s.pause(s.stop, probePace) {
		select {
		case running <- struct{}{}:
		default:
			continue
		}
		all.Go(func() {
			defer func() { <-running }()
			began := time.Now()
			l, err := store.Borrow(s.t.Context(), s.probes, 30*time.Second, 0)
			if !s.count("probe", began, 0, err) {
				return
			}
			store.grants.add()
			lease := s.granted(store, s.probes, l)
			s.giveBack(store, s.probes, l, lease)
		})
	}
}

func (s *cutSoak) granted(store *cutStore, pool uuid.UUID, l *Lease) *kvslotstest.Told {
	lease := &kvslotstest.Told{Fence: l.Fence(), Granted: time.Now(), Ends: l.ExpiresAt(), By: store.name}
	s.ledger.Grant(slotOf{pool: pool, position: l.Position()}, lease)
	return lease
}

// giveBack returns a lease at a store, again until the outcome is known.
func (s *cutSoak) giveBack(store *cutStore, pool uuid.UUID, l *Lease, lease *kvslotstest.Told) {
	ends := s.ledger.GiveBack(lease)
	for again := false; ; again = true {
		began := time.Now()
		ok, err := store.Return(context.Background(), pool, l.ID())
		if s.count("return", began, 0, err) {
			if !ok && !again && time.Now().Before(ends) {
				s.ledger.Fail("%s, was lost before its return at %s by %s", lease, clock(began), store.name)
			}
			return
		}
		if !errors.Is(err, ErrUnavailable) {
			s.t.Errorf("return: %v", err)
			return
		}
		time.Sleep(probePace)
	}
}

// borrower borrows from the hot pools, and renews and returns at any store.
func (s *cutSoak) borrower(store *cutStore, r *rand.Rand) {
	for s.pause(s.stop, time.Duration(r.IntN(40))*time.Millisecond) {
		i, wait, ttl := r.IntN(len(s.pools)), time.Duration(r.IntN(3000))*time.Millisecond, time.Duration(2+r.IntN(inSoak(3, 30)))*time.Second
		began := time.Now()
		l, err := store.Borrow(s.t.Context(), s.pools[i], ttl, wait)
		if !s.count("borrow", began, wait, err) {
			continue
		}
		store.grants.add()
		lease := s.granted(store, s.pools[i], l)
		if l.Position() >= hotCounts[i] {
			s.ledger.Fail("position %d of %d", l.Position(), hotCounts[i])
		}
		for n := max(0, r.IntN(13)-9); n > 0; n-- {
			time.Sleep(time.Duration(r.IntN(400)) * time.Millisecond)
			s.renew(s.stores[r.IntN(len(s.stores))], s.pools[i], l, lease, ttl)
		}
		time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond)
		switch n := r.IntN(20); {
		case n == 0: // its time ends it
		case n < 4:
			s.giveBack(s.stores[r.IntN(len(s.stores))], s.pools[i], l, lease)
		default:
			s.giveBack(store, s.pools[i], l, lease)
		}
	}
}

func (s *cutSoak) renew(store *cutStore, pool uuid.UUID, l *Lease, lease *kvslotstest.Told, ttl time.Duration) {
	began := time.Now()
	renewed, err := store.Renew(s.t.Context(), pool, l.ID(), ttl)
	answered := time.Now()
	switch {
	case s.count("renew", began, 0, err):
		if renewed.Fence() != lease.Fence || renewed.Position() != l.Position() {
			s.ledger.Fail("a renewal changed fence %d to %d", lease.Fence, renewed.Fence())
		}
		s.ledger.Renewed(lease, renewed.ExpiresAt())
	case !errors.Is(err, ErrUnavailable) && answered.Before(lease.Ends):
		s.ledger.Fail("%s, was lost before its renewal at %s by %s: %v", lease, clock(answered), store.name, err)
	}
}

// lockIdle is the idle time of sessions.
const lockIdle = time.Minute

// locker takes locks by sessions, which any store serves.
func (s *cutSoak) locker(store *cutStore, r *rand.Rand) {
	for s.pause(s.stop, probePace) {
		began := time.Now()
		id, err := store.CreateSession(s.t.Context(), lockIdle, "")
		if !s.count("create session", began, 0, err) {
			continue
		}
		gone := false
		for n := r.IntN(200); n > 0 && !gone && s.pause(s.stop, time.Duration(r.IntN(60))*time.Millisecond); n-- {
			gone = errors.Is(s.lock(store, id, r), ErrSessionGone)
		}
		for again := gone; ; again = true {
			began := time.Now()
			err := store.EndSession(s.t.Context(), id)
			if s.count("end session", began, 0, err) || again && errors.Is(err, ErrSessionGone) {
				break
			}
			if !errors.Is(err, ErrUnavailable) {
				s.ledger.Fail("end session at %s by %s: %v", clock(time.Now()), store.name, err)
				break
			}
		}
	}
}

func (s *cutSoak) lock(store *cutStore, session string, r *rand.Rand) error {
	name := fmt.Sprint("lock-", r.IntN(3))
	wait, began := time.Duration(r.IntN(2000))*time.Millisecond, time.Now()
	g, err := store.Acquire(s.t.Context(), session, Lock(name), 2*time.Second+time.Duration(r.IntN(20))*time.Second, wait)
	if !s.count("acquire", began, wait, err) {
		if errors.Is(err, ErrSessionGone) {
			s.ledger.Fail("a session is gone at %s by %s", clock(time.Now()), store.name)
		}
		return err
	}
	now := time.Now()
	store.grants.add()
	lease := &kvslotstest.Told{Fence: g.Fence, Granted: now, Ends: now.Add(g.TTL), By: store.name}
	s.ledger.Grant(slotOf{lock: name}, lease)
	time.Sleep(time.Duration(r.IntN(40)) * time.Millisecond)
	other := s.stores[r.IntN(len(s.stores))]
	if r.IntN(4) == 0 {
		began := time.Now()
		remaining, err := other.Extend(s.t.Context(), session, Lock(name), g.Token, 20*time.Second)
		if now := time.Now(); s.count("extend", began, 0, err) {
			s.ledger.Renewed(lease, began.Add(remaining))
		} else if !errors.Is(err, ErrUnavailable) && now.Before(lease.Ends) {
			s.ledger.Fail("lock: %s, was lost before its extension at %s by %s: %v", lease, clock(now), other.name, err)
		}
	}
	ends := s.ledger.GiveBack(lease)
	for again := false; ; again = true {
		began := time.Now()
		err := other.Release(s.t.Context(), session, Lock(name), g.Token)
		if s.count("release", began, 0, err) || again && errors.Is(err, ErrNotHeld) {
			return err
		}
		if !errors.Is(err, ErrUnavailable) {
			if time.Now().Before(ends) {
				s.ledger.Fail("lock: %s, was lost before its release at %s by %s: %v", lease, clock(time.Now()), other.name, err)
			}
			return err
		}
		time.Sleep(probePace)
	}
}

// registrar registers a pool, changes its count, and deletes it.
func (s *cutSoak) registrar(store *cutStore) {
	for s.pause(s.stop, 2*probePace) {
		pool := uuid.New()
		for _, count := range []int{3, 1} {
			for {
				began := time.Now()
				state, err := store.Register(s.t.Context(), pool, count)
				if s.count("register", began, 0, err) {
					if state.Count != count {
						s.ledger.Fail("registered %d, got %+v", count, state)
					}
					break
				}
			}
		}
		for {
			began := time.Now()
			if s.count("delete", began, 0, store.Delete(s.t.Context(), pool)) {
				break
			}
		}
	}
}

// report logs what was measured for each fault.
func (s *cutSoak) report() {
	t := s.t
	leases, _ := s.ledger.Check()
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Logf("%d leases; calls %v; failures %v; longest beyond their waits %v", leases, s.calls, s.failures, s.slowest)
	for i, store := range s.stores {
		t.Logf("%s is at %s after %d reconnects, and had %+v", store.name, store.nc.ConnectedServerName(), store.nc.Stats().Reconnects, counters(s.stores[i].Store))
	}
	byName := map[string][]measurement{}
	for _, m := range s.measured {
		there := "elsewhere"
		if m.there {
			there = "at the server"
		}
		for _, name := range []string{m.fault, there, "all"} {
			byName[name] = append(byName[name], m)
		}
		byName[m.fault+", "+there] = append(byName[m.fault+", "+there], m)
	}
	names := make([]string, 0, len(byName))
	for name := range byName {
		names = append(names, name)
	}
	slices.Sort(names)
	t.Logf("%-36s %5s | %11s | %11s | %11s | %11s | %11s | %11s | %11s | %s", "median/max in s", "n", "NATS away", "no meta", "outage", "behind NATS", "behind both", "after end", "unavailable", "behind both > 0.35 s, > 1 s, > 3 s")
	for _, name := range names {
		s.row(name, byName[name])
	}
}

func (s *cutSoak) row(name string, list []measurement) {
	var columns []string
	for _, of := range []func(measurement) time.Duration{
		func(m measurement) time.Duration { return m.nats },
		func(m measurement) time.Duration { return m.meta },
		func(m measurement) time.Duration { return m.outage },
		func(m measurement) time.Duration { return m.behind },
		func(m measurement) time.Duration { return m.behindAll },
		func(m measurement) time.Duration { return m.afterEnd },
		func(m measurement) time.Duration { return time.Duration(m.unavailable) * time.Second },
	} {
		var all []time.Duration
		for _, m := range list {
			all = append(all, of(m))
		}
		slices.Sort(all)
		columns = append(columns, fmt.Sprintf("%5.2f %5.2f", all[len(all)/2].Seconds(), all[len(all)-1].Seconds()))
	}
	var late [3]int
	for _, m := range list {
		for i, limit := range []time.Duration{350 * time.Millisecond, time.Second, 3 * time.Second} {
			if m.behindAll > limit {
				late[i]++
			}
		}
	}
	s.t.Logf("%-36s %5d | %s | %v", name, len(list), strings.Join(columns, " | "), late)
}

// nothingLeft waits until no lease, no place in line and no session is left.
func (s *cutSoak) nothingLeft(histories []*history) {
	t := s.t
	var stores []*Store
	for _, store := range s.stores {
		stores = append(stores, store.Store)
	}
	all := &history{t: t, pools: append(slices.Clone(s.pools), s.probes)}
	for _, h := range histories {
		all.pools = append(all.pools, h.pools...)
	}
	nothingHeld(t, stores)
	nothingLeft(t, all, stores)
}

// checkCutHistories checks the history of each pool of each round by itself.
func checkCutHistories(t *testing.T, histories []*history) {
	t.Helper()
	results := map[porcupine.CheckResult]int{}
	operations := 0
	for round, h := range histories {
		laterEffects(h.ops)
		tightenPools(h.ops)
		for _, part := range modelOfPools.Partition(h.ops) {
			operations += len(part)
			result := porcupine.CheckOperationsTimeout(modelOfPools, part, *checkTime/5)
			if results[result]++; result == porcupine.Illegal {
				t.Errorf("the history of round %d, which began at %s, is not linearizable:\n%s", round, clock(h.start), explain(part))
			}
		}
	}
	t.Logf("histories of pools: %v, with %d operations", results, operations)
}

// laterEffects has calls of unknown outcome take effect at any later time.
func laterEffects(ops []porcupine.Operation) {
	var end int64
	for _, op := range ops {
		if op.Input.(input).kind != opExpire {
			end = max(end, op.Return)
		}
	}
	for i := range ops {
		op := &ops[i]
		switch op.Input.(input).kind {
		case opRegister, opDelete, opReturn:
			if op.Output.(output).outcome == unknown {
				op.Return = end
			}
		}
	}
}
