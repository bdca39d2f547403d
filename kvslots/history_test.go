package kvslots

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

var (
	historyTime = flag.Duration("history", 10*time.Second, "how long the histories that are checked for linearizability last")
	checkTime   = flag.Duration("check", 10*time.Second, "how long a history may be checked before that is given up")
	historySeed = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of random tests")
)

// history records what clients did, and the results.
type history struct {
	t      *testing.T
	start  time.Time
	pools  []uuid.UUID
	hashes map[entry.Hash]int

	mu      sync.Mutex
	ops     []porcupine.Operation
	leases  []*recorded
	borrows []attempt
	number  int
	lagging bool
}

// recorded is a lease that was granted to a client.
type recorded struct {
	lease  *Lease
	pool   int
	number int
	ends   time.Time // it lasts at least until then
	gone   bool      // whether a call has certainly ended it
}

func newHistory(t *testing.T, pools int) *history {
	h := &history{t: t, start: time.Now(), hashes: map[entry.Hash]int{}}
	for range pools {
		h.pools = append(h.pools, uuid.New())
	}
	return h
}

func (h *history) at(t time.Time) int64 { return t.Sub(h.start).Nanoseconds() }

func (h *history) add(client int, call, end time.Time, in input, out output) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{
		ClientId: client, Input: in, Call: h.at(call), Output: out, Return: h.at(end),
	})
}

func (h *history) next() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.number++
	return h.number
}

func outcomeOf(t *testing.T, err error) outcome {
	switch {
	case err == nil:
		return done
	case errors.Is(err, ErrNoPool):
		return noPool
	case errors.Is(err, ErrNoSlot):
		return noSlot
	case errors.Is(err, ErrNotHeld):
		return notHeld
	case errors.Is(err, context.Canceled):
		return gaveUp
	case errors.Is(err, ErrUnavailable):
		return unknown
	}
	t.Errorf("unexpected error: %v", err)
	return gaveUp
}

// client makes random calls at one peer until the time is over.
type client struct {
	*history
	id    int
	store *Store
	rand  *rand.Rand
	held  []*recorded
}

func (c *client) run(ctx context.Context, until time.Time) {
	for time.Now().Before(until) && !c.t.Failed() {
		c.act(ctx)
	}
}

// act makes one call.
func (c *client) act(ctx context.Context) {
	pool := c.rand.IntN(len(c.pools))
	switch n := c.rand.IntN(100); {
	case n < 6:
		c.register(ctx, pool)
	case n < 14:
		c.inspect(ctx, pool)
	case n < 16:
		c.delete(ctx, pool)
	case n < 60:
		c.borrow(ctx, pool)
	case len(c.held) == 0:
	case n < 90:
		c.giveBack(ctx)
	default:
		c.renew(ctx)
	}
}

func (c *client) register(ctx context.Context, pool int) {
	in := input{kind: opRegister, pool: pool, count: c.rand.IntN(modelSlots)}
	call := time.Now()
	state, err := c.store.Register(ctx, c.pools[pool], in.count)
	end := time.Now()
	c.add(c.id, call, end, in, output{outcome: outcomeOf(c.t, err)})
	if err == nil && state.InUse > 0 { // it is of a later instant; without leases, the pool may be deleted by then
		c.add(c.id, call, end, input{kind: opInspect, pool: pool}, output{state: state})
	}
}

func (c *client) inspect(ctx context.Context, pool int) {
	call := time.Now()
	state, err := c.store.Inspect(ctx, c.pools[pool])
	c.add(c.id, call, time.Now(), input{kind: opInspect, pool: pool}, output{outcome: outcomeOf(c.t, err), state: state})
}

func (c *client) delete(ctx context.Context, pool int) {
	call := time.Now()
	err := c.store.Delete(ctx, c.pools[pool])
	c.add(c.id, call, time.Now(), input{kind: opDelete, pool: pool}, output{outcome: outcomeOf(c.t, err)})
}

func (c *client) borrow(ctx context.Context, pool int) {
	ttl := time.Duration(1+c.rand.IntN(3)) * time.Second
	wait := time.Duration(max(0, c.rand.IntN(600)-200)) * time.Millisecond
	if c.rand.IntN(8) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		time.AfterFunc(time.Duration(c.rand.IntN(50_000))*time.Microsecond, cancel)
		defer cancel()
	}
	in := input{kind: opBorrow, pool: pool, lease: c.next()}
	call := time.Now()
	ids := leaseIDs{pool: c.pools[pool]} // not Store.Borrow, which keeps the ids to itself if it is canceled
	request := c.store.newBorrow(&ids, &Options{TTL: ttl, Wait: &wait})
	leases := []entry.Hash{request.Lease}
	request.LeaseOf = func(n int) (lease, nonce entry.Hash) {
		lease, nonce = ids.hashOfClaim(n)
		leases = append(leases, lease)
		return lease, nonce
	}
	a, err := c.store.bucket.Do(ctx, request)
	end := time.Now()
	out := output{outcome: outcomeOf(c.t, err)}
	if err == nil {
		l := c.store.lease(&ids, &a.Grant)
		out.position, out.fence = l.Position(), l.Fence()
		r := &recorded{lease: l, pool: pool, number: in.lease, ends: l.ExpiresAt()}
		c.held = append(c.held, r)
		c.mu.Lock()
		c.leases = append(c.leases, r)
		c.mu.Unlock()
	}
	c.add(c.id, call, end, in, out)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, lease := range leases {
		c.borrows = append(c.borrows, attempt{pool, lease, err == nil && i == a.Grant.Claim, call, end})
	}
}

func (c *client) pick() *recorded {
	i := c.rand.IntN(len(c.held))
	return c.held[i]
}

func (c *client) drop(r *recorded) {
	for i, other := range c.held {
		if other == r {
			c.held = append(c.held[:i], c.held[i+1:]...)
		}
	}
}

func (c *client) giveBack(ctx context.Context) {
	r := c.pick()
	c.drop(r)
	call := time.Now()
	ok, err := c.store.Return(ctx, c.pools[r.pool], r.lease.ID())
	out := output{outcome: outcomeOf(c.t, err)}
	if err == nil && !ok {
		out.outcome = notHeld
	}
	r.gone = true
	c.add(c.id, call, time.Now(), input{kind: opReturn, pool: r.pool, lease: r.number}, out)
	if out.outcome == notHeld && call.Before(r.ends) {
		// The pool was deleted, or the test was paused. The model decides.
		return
	}
}

func (c *client) renew(ctx context.Context) {
	r := c.pick()
	ttl := time.Duration(1+c.rand.IntN(2)) * time.Second
	call := time.Now()
	l, err := c.store.Renew(ctx, c.pools[r.pool], r.lease.ID(), ttl)
	end := time.Now()
	out := output{outcome: outcomeOf(c.t, err)}
	c.add(c.id, call, end, input{kind: opRenew, pool: r.pool, lease: r.number}, out)
	if err != nil {
		c.drop(r)
		if ends := call.Add(ttl); ends.Before(r.ends) { // it may have been written all the same
			r.ends = ends
		}
		return
	}
	if l.Fence() != r.lease.Fence() || l.Position() != r.lease.Position() {
		c.t.Errorf("renewed lease has fence %d and position %d, had %d and %d", l.Fence(), l.Position(), r.lease.Fence(), r.lease.Position())
	}
	r.ends = l.ExpiresAt()
}

// expiries adds the ends of leases by time: a lease ends at its deadline at the earliest,
// and before its slot was observed as free or as lent again.
func (h *history) expiries(observed *observer, end time.Time) {
	observed.mu.Lock()
	defer observed.mu.Unlock()
	for _, r := range h.leases {
		by, ok := observed.ended[leaseHash(r.lease.ID())]
		if ok && by.Before(r.ends) {
			continue // ended by a call
		}
		if !ok {
			by = end
		}
		h.add(-r.number, r.ends, by, input{kind: opExpire, pool: r.pool, lease: r.number}, output{})
	}
	h.withdrawals(observed)
}

// observer watches the bucket independently of peers. It counts the written claims of
// each lease, and records when it last saw the lease end.
//
// A consumer skips entries that are overwritten quickly, so the observer subscribes to
// the published claims and to their acknowledgements.
type observer struct {
	mu      sync.Mutex
	holds   map[string]entry.Hash
	claims  map[entry.Hash]int
	sent    map[string]entry.Hash // claims, by the subject of their answer
	written map[string]struct{}   // subjects of answers that came before their claims
	ended   map[entry.Hash]time.Time
}

func observe(t *testing.T, nc *nats.Conn) *observer {
	t.Helper()
	o := &observer{
		holds: map[string]entry.Hash{}, claims: map[entry.Hash]int{}, ended: map[entry.Hash]time.Time{},
		sent: map[string]entry.Hash{}, written: map[string]struct{}{},
	}
	js, err := nc.JetStream()
	natstest.Must(t, err)
	const slots = bucket.SubjectPrefix + "p.*.s.*"
	natstest.Must(t, natstest.Err(js.Subscribe(slots, o.see, nats.OrderedConsumer())))
	for subject, take := range map[string]nats.MsgHandler{slots: o.claimed, nats.InboxPrefix + ">": o.answered} {
		sub, err := nc.Subscribe(subject, take)
		natstest.Must(t, err)
		_ = sub.SetPendingLimits(-1, -1)
	}
	natstest.Must(t, nc.Flush())
	return o
}

func (o *observer) claimed(m *nats.Msg) {
	e := entry.Parse(strings.TrimPrefix(m.Subject, bucket.SubjectPrefix), 0, time.Time{}, m.Header.Get, m.Data)
	if e.Marker || e.Slot.Lease.IsZero() || e.Slot.Fence != 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.written[m.Reply]; ok {
		delete(o.written, m.Reply)
		o.claims[e.Slot.Lease]++
	} else {
		o.sent[m.Reply] = e.Slot.Lease
	}
}

func (o *observer) answered(m *nats.Msg) {
	if !bytes.HasPrefix(m.Data, []byte(`{"stream":"`+bucket.StreamName+`","seq":`)) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if lease, ok := o.sent[m.Subject]; ok {
		delete(o.sent, m.Subject)
		o.claims[lease]++
	} else {
		o.written[m.Subject] = struct{}{}
	}
}

func (o *observer) see(m *nats.Msg) {
	e := entry.Parse(strings.TrimPrefix(m.Subject, bucket.SubjectPrefix), 0, time.Time{}, m.Header.Get, m.Data)
	o.mu.Lock()
	defer o.mu.Unlock()
	if was, ok := o.holds[m.Subject]; ok && was != e.Slot.Lease {
		o.ended[was] = time.Now()
	}
	o.holds[m.Subject] = e.Slot.Lease
}

// setting is a set of peers, and how they reach the stream.
type setting struct {
	peers, clients, pools int
	replicas              int
	length                time.Duration
	seed                  uint64
	connect               func(peer int) *nats.Conn // nil: to a server of the test's own
	hook                  func(peer int, r *rand.Rand) bucket.Hook
	disturb               func(ctx context.Context, stores []*Store, r *rand.Rand)
}

// open opens a store for each peer.
func (set *setting) open(t *testing.T) (stores []*Store) {
	t.Helper()
	t.Logf("seed %d", set.seed)
	if set.connect == nil {
		srv := natstest.Start(t, "")
		set.connect = func(int) *nats.Conn { return srv.Connect() }
	}
	for i := range set.peers {
		var between bucket.Hook
		if set.hook != nil {
			between = set.hook(i, set.random(1000+i))
		}
		s, err := open(t.Context(), set.connect(i), Config{Replicas: set.replicas}, between)
		natstest.Must(t, err)
		t.Cleanup(func() { _ = s.Close(context.Background()) })
		stores = append(stores, s)
	}
	return stores
}

func (set *setting) random(stream int) *rand.Rand {
	return rand.New(rand.NewPCG(set.seed, uint64(stream)))
}

// lagging reports whether a peer's view may skip entries that another peer has seen.
func (set *setting) lagging() bool { return set.hook != nil || set.replicas > 1 }

// runHistory has clients of pools make random calls, and fails if their history is not
// linearizable. It returns Ok, or Unknown if that could not be decided in time.
func runHistory(t *testing.T, set setting) porcupine.CheckResult {
	stores := set.open(t)
	h := newHistory(t, set.pools)
	h.lagging = set.lagging()
	watched := observe(t, set.connect(0))
	until := time.Now().Add(set.length)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range set.peers * set.clients {
		c := &client{history: h, id: i, store: stores[i%set.peers], rand: set.random(i)}
		wg.Go(func() { c.run(t.Context(), until) })
	}
	if set.disturb != nil {
		var side sync.WaitGroup
		side.Go(func() { set.disturb(ctx, stores, set.random(999)) })
		defer side.Wait()
	}
	wg.Wait()
	stop()
	nothingLeft(t, h, stores)
	h.expiries(watched, time.Now())

	outcomes := map[string]int{}
	for _, op := range h.ops {
		outcomes[strings.Split(describe(op.Input.(input), op.Output.(output)), " count=")[0][:6]]++
	}
	t.Logf("%d operations %v", len(h.ops), outcomes)
	for i, s := range stores {
		t.Logf("peer %d: %+v", i, counters(s))
	}
	tightenPools(h.ops)
	began := time.Now()
	result := porcupine.CheckOperationsTimeout(modelOfPools, h.ops, *checkTime)
	t.Logf("checked in %s: %s", time.Since(began).Round(time.Millisecond), result)
	if result == porcupine.Unknown {
		t.Log("too many operations at once to decide in time")
	}
	if result == porcupine.Illegal {
		text := explain(h.ops)
		if dir := os.Getenv("KVSLOTS_HISTORY_DIR"); dir != "" {
			_ = os.WriteFile(dir+"/history.txt", []byte(text), 0o600)
		}
		t.Fatalf("history is not linearizable (%s):\n%s", result, text)
	}
	return result
}

// nothingLeft waits until every lease has ended, and checks that no slot, no ticket and
// no waiting borrower remains.
func nothingLeft(t *testing.T, h *history, stores []*Store) {
	t.Helper()
	defer logRemains(t, stores)
	for _, id := range h.pools {
		for _, s := range stores {
			eventually(t, "a pool is empty", func() bool {
				state, err := s.Inspect(t.Context(), id)
				return errors.Is(err, ErrNoPool) || (err == nil && state.InUse == 0 && state.Waiting == 0)
			})
		}
	}
	for _, s := range stores {
		eventually(t, "a peer is at rest", func() bool { return remains(s) == "" })
	}
}

// logRemains logs the pending work of the peers if the test has failed.
func logRemains(t *testing.T, stores []*Store) {
	if t.Failed() {
		for _, s := range stores {
			t.Log(remains(s), counters(s))
		}
	}
}

var eventually = natstest.Eventually

func TestOneSemaphoreManyPeers(t *testing.T) {
	besideOthers(t)
	runHistory(t, setting{peers: 3, clients: 50, pools: 40, length: *historyTime, seed: *historySeed})
}

// nothingHeld checks that no session holds or waits for anything.
func nothingHeld(t *testing.T, stores []*Store) {
	t.Helper()
	defer logRemains(t, stores)
	for _, s := range stores {
		eventually(t, "nothing is held", func() bool {
			stats, err := s.Stats(t.Context())
			return err == nil && stats.Sessions == 0 && len(stats.Names) == 0
		})
		eventually(t, "a peer is at rest", func() bool { return remains(s) == "" })
	}
}
