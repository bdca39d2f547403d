package kvslots

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

const (
	historyKeys     = 24
	historySessions = 60
	sessionActs     = 200 // more than the calls of one session
)

// keyHistory records what sessions did, and the results.
type keyHistory struct {
	t      *testing.T
	start  time.Time
	seed   uint64
	stores []*Store
	stream jetstream.Stream

	mu      sync.Mutex
	ops     []porcupine.Operation
	number  int
	lagging bool
	ids     map[int]string
	tokens  [historyKeys][]string // the granted ones, by key
	open    [historyKeys]bool     // a call had no answer for 5 s on a busy machine: the model has no such outcome
}

var keyErrors = []error{
	ErrSessionGone, ErrLimitMismatch, ErrAlreadyEnqueued, ErrNotEnqueued, ErrLeaseExpired, ErrNotHeld, ErrNoSlot, context.Canceled, ErrUnavailable,
}

func sentinel(err error) error {
	for _, known := range keyErrors {
		if errors.Is(err, known) {
			return known
		}
	}
	return err
}

func (h *keyHistory) add(client int, call time.Time, in keyInput, out keyOutput) {
	end := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if out.token != "" {
		h.tokens[in.key] = append(h.tokens[in.key], out.token)
	}
	if out.err == ErrUnavailable && !(in.op == opRelease && h.lagging) { // its purge was sent twice, and skipped
		h.open[in.key] = true
	}
	h.ops = append(h.ops, porcupine.Operation{
		ClientId: client, Input: in, Call: call.Sub(h.start).Nanoseconds(), Output: out, Return: end.Sub(h.start).Nanoseconds(),
	})
}

// everywhere adds an operation on a session to the history of every key that the session
// uses.
func (u *user) everywhere(call time.Time, in keyInput, out keyOutput) {
	for _, in.key = range u.keys {
		u.add(u.id, call, in, out)
	}
}

// user is a client that uses one session after the other.
type user struct {
	*keyHistory
	id      int
	rand    *rand.Rand
	session int
	secret  string
	begun   time.Time
	idle    time.Duration
	keys    []int // the keys that it uses
	held    []keyInput
	queued  []int
}

func (u *user) store() *Store { return u.stores[u.rand.IntN(len(u.stores))] }

func (u *user) begin() {
	u.begun, u.idle = time.Now(), time.Minute
	if u.rand.IntN(4) == 0 {
		u.idle = time.Second
	}
	secret, _, err := u.store().CreateSession(u.t.Context(), WithIdle(u.idle))
	if err != nil {
		u.t.Error(err)
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.number++
	u.session, u.secret, u.keys, u.held, u.queued = u.number, secret, u.rand.Perm(historyKeys)[:3], nil, nil
	u.ids[u.session] = secret
}

// end ends the session by a call, which may be concurrent with other calls, or by not
// using it.
func (u *user) end() {
	call, store := time.Now(), u.store()
	in := keyInput{op: opEnd, session: u.session}
	if u.idle == time.Second && u.rand.IntN(2) == 0 && u.inBucket(u.secret) {
		for u.inBucket(u.secret) {
			time.Sleep(5 * time.Millisecond)
		}
		u.everywhere(call, in, keyOutput{err: errEither})
		return
	}
	err := store.EndSession(u.t.Context(), u.secret)
	u.everywhere(call, in, keyOutput{err: sentinel(err)})
	if errors.Is(err, ErrSessionGone) && u.idle == time.Second { // the machine may have paused for so long that the session was idle
		u.everywhere(u.begun, in, keyOutput{err: errEither})
	}
}

// inBucket reports whether the bucket has a session.
func (h *keyHistory) inBucket(session string) bool {
	key := entry.Key{Kind: entry.Session, Session: sessionHash(session)}
	m, err := h.stream.GetLastMsgForSubject(h.t.Context(), bucket.SubjectPrefix+key.String())
	return err == nil && m.Header.Get(entry.HeaderOperation) == "" && m.Header.Get(entry.HeaderReason) == ""
}

// resource returns a key, usually with the same terms, and now and then with others.
func (u *user) resource(key int) Resource {
	r := Resource{Kind: Kind(key % 2), Key: fmt.Sprint("key-", key), Limit: 1}
	if r.Kind == KindSemaphore {
		r.Limit = 1 + key%3
	}
	switch u.rand.IntN(40) {
	case 0:
		r.Kind, r.Limit = KindLock, 1
	case 1:
		r.Kind, r.Limit = KindSemaphore, 1+u.rand.IntN(3)
	}
	return r
}

func (u *user) run(until time.Time) {
	for time.Now().Before(until) && !u.t.Failed() {
		u.begin()
		ended := make(chan struct{})
		if u.rand.IntN(3) == 0 { // another peer ends it concurrently
			other := &user{u.keyHistory, 1000 + u.id, rand.New(rand.NewPCG(u.seed, u.rand.Uint64())), u.session, u.secret, u.begun, u.idle, u.keys, nil, nil}
			go func() {
				defer close(ended)
				time.Sleep(time.Duration(other.rand.IntN(60)) * time.Millisecond)
				other.end()
			}()
		} else {
			close(ended)
		}
		for n := u.rand.IntN(sessionActs); n > 0 && time.Now().Before(until); n-- {
			u.act()
		}
		<-ended
		u.end()
	}
}

func (u *user) act() {
	key, store := u.keys[u.rand.IntN(len(u.keys))], u.store()
	n := u.rand.IntN(100)
	if len(u.queued) > 0 && u.rand.IntN(3) > 0 {
		n, key = 45, u.queued[0]
		u.queued = u.queued[1:]
	}
	r, ctx := u.resource(key), u.t.Context()
	in := keyInput{key: key, session: u.session, lock: r.Kind == KindLock, limit: r.Limit, lagging: u.lagging}
	wait := time.Duration(max(0, u.rand.IntN(60)-20)) * time.Millisecond
	var g Grant
	var err error
	call := time.Now()
	switch {
	case n < 25:
		in.op = opAcquire
		g, err = store.Acquire(ctx, u.secret, r, time.Minute, wait)
	case n < 45:
		in.op = opEnqueue
		g, _, err = store.Enqueue(ctx, u.secret, r, time.Minute)
	case n < 65:
		in.op = opWait
		g, err = store.Wait(ctx, u.secret, r, wait)
	case n < 95:
		in.op, in.token = opRelease, u.token(key)
		if len(u.held) > 0 && u.rand.IntN(3) > 0 {
			in, u.held = u.held[0], u.held[1:]
			in.op, key, r = opRelease, in.key, u.resource(in.key)
			if in.lock {
				r.Kind = KindLock
			} else {
				r.Kind = KindSemaphore
			}
		}
		err = store.Release(ctx, u.secret, r, in.token)
	case n < 98:
		in.op, in.token = opExtend, u.token(key)
		_, err = store.Extend(ctx, u.secret, r, in.token, time.Minute)
	default:
		in.op = opPing
		err = store.Ping(ctx, u.secret)
		u.everywhere(call, in, keyOutput{err: sentinel(err)})
		return
	}
	err = sentinel(err)
	u.add(u.id, call, in, keyOutput{err, g.Token})
	switch {
	case g.Token != "":
		in.token = g.Token
		u.held = append(u.held, in)
	case in.op == opEnqueue && err == nil:
		u.queued = append(u.queued, key)
	}
	if in.op == opRelease && err == nil {
		u.forget(key, in.token)
	}
}

func (u *user) forget(key int, token string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tokens[key] = slices.DeleteFunc(u.tokens[key], func(other string) bool { return other == token })
}

// token returns one of the latest tokens of a key, or "".
func (u *user) token(key int) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n := len(u.tokens[key]); n > 0 {
		return u.tokens[key][max(0, n-1-u.rand.IntN(4))]
	}
	return fmt.Sprintf("%032x", 1)
}

// Sessions at three peers make random calls on locks and semaphores, and end. Their
// history is linearizable.
func TestSessionsManyPeers(t *testing.T) {
	besideOthers(t)
	runKeyHistory(t, setting{length: *historyTime / 4, seed: *historySeed})
}

// The same on a cluster with a replicated bucket.
func TestSessionsReplicated(t *testing.T) {
	besideOthers(t)
	cluster := natstest.StartCluster(t)
	runKeyHistory(t, setting{
		replicas: 3, length: *historyTime / 4, seed: *historySeed,
		connect: func(int) *nats.Conn { return cluster.Connect() },
	})
}

// runKeyHistory is runHistory for sessions at three peers.
func runKeyHistory(t *testing.T, set setting) porcupine.CheckResult {
	set.peers = 3
	h := &keyHistory{t: t, lagging: set.lagging(), seed: set.seed, stores: set.open(t), start: time.Now(), ids: map[int]string{}}
	var err error
	js := natstest.JetStream(t, set.connect(0))
	if h.stream, err = js.Stream(t.Context(), bucket.StreamName); err != nil {
		t.Fatal(err)
	}
	var users sync.WaitGroup
	until := time.Now().Add(set.length)
	for i := range historySessions {
		u := &user{keyHistory: h, id: i, rand: set.random(i)}
		users.Go(func() { u.run(until) })
	}
	users.Wait()
	if t.Failed() {
		t.FailNow()
	}
	nothingHeld(t, h.stores)
	outcomes := map[string]int{}
	for _, op := range h.ops {
		outcomes[fmt.Sprint(op.Input.(keyInput).op, " ", op.Output.(keyOutput).err)]++
	}
	t.Logf("%d sessions, %d operations %v", h.number, len(h.ops), outcomes)
	for i, s := range h.stores {
		t.Logf("peer %d: %+v", i, counters(s))
	}
	return h.check()
}

// checkAgain is how many times as long as the first check the second one may take.
const checkAgain = 6

// check fails if the history is not linearizable, even with the waits that the clients
// could not report. A second check that is not decided confirms the first one's Illegal.
func (h *keyHistory) check() porcupine.CheckResult {
	h.t.Helper()
	h.ops = slices.DeleteFunc(h.ops, func(op porcupine.Operation) bool { return h.open[op.Input.(keyInput).key] })
	switch open := len(slices.DeleteFunc(slices.Clone(h.open[:]), func(open bool) bool { return !open })); {
	case open == historyKeys:
		h.t.Fatal("a call of each key had no answer")
	case open > 0:
		h.t.Logf("of %d keys a call had no answer: their histories are not checked", open)
	}
	tightenKeys(h.ops)
	began := time.Now()
	result := porcupine.CheckOperationsTimeout(modelOfKeys, h.ops, *checkTime)
	if result == porcupine.Illegal {
		h.t.Log("checked again with the waits that ended without a grant")
		h.addWaits()
		if result = porcupine.CheckOperationsTimeout(modelOfKeys, h.ops, checkAgain**checkTime); result == porcupine.Unknown {
			result = porcupine.Illegal
		}
	}
	h.t.Logf("checked in %s: %s", time.Since(began).Round(time.Millisecond), result)
	if result == porcupine.Illegal {
		h.t.Fatalf("history is not linearizable:\n%s", explainKey(h.ops, func(m porcupine.Model, part []porcupine.Operation) (porcupine.CheckResult, porcupine.LinearizationInfo) {
			return porcupine.CheckOperationsVerbose(m, part, *checkTime)
		}))
	}
	return result
}

// addWaits adds the waits that ended without a grant and during which another session was
// refused for its terms: the ticket of such a wait may have been the reason.
func (h *keyHistory) addWaits() {
	const leaving = 20e6 // nanoseconds until the ticket is removed
	all := slices.Clone(h.ops)
	for i, op := range all {
		in, out := op.Input.(keyInput), op.Output.(keyOutput)
		if in.op != opAcquire || out.err != ErrNoSlot && out.err != ErrSessionGone {
			continue
		}
		if !slices.ContainsFunc(all, func(other porcupine.Operation) bool {
			return other.Output.(keyOutput).err == ErrLimitMismatch && other.Input.(keyInput).key == in.key &&
				(other.Input.(keyInput).lock != in.lock || other.Input.(keyInput).limit != in.limit) && other.Call < op.Return+leaving && op.Call < other.Return
		}) {
			continue
		}
		in.token = fmt.Sprint("wait ", i)
		stand, leave := op, op
		in.op, stand.ClientId, stand.Output = opStand, -2*i-1, keyOutput{}
		stand.Input = in
		in.op, leave.ClientId, leave.Output = opLeave, -2*i-2, keyOutput{}
		leave.Input, leave.Return = in, op.Return+leaving
		h.ops = append(h.ops, stand, leave)
	}
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
