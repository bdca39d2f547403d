//go:build unix

package kvslots

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

var errClientGone = errors.New("the client has gone")

// jobs are what clients do that name their calls. The label of its leases is the job's name.
type jobs struct {
	mu              sync.Mutex
	number, repeats int
	live            map[string]time.Time // by label: when the job ended; zero: not yet
}

func (j *jobs) begin(store *cutStore, keyed bool) (label string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.number++
	label = fmt.Sprint(store.name, keylessJob, j.number)
	if keyed {
		label = fmt.Sprint(store.name, " job ", j.number)
	}
	j.live[label] = time.Time{}
	return label
}

// keylessJob follows the store's name in the label of a job whose call has no key.
const keylessJob = " keyless job "

func (j *jobs) end(label string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.live[label] = time.Now()
}

// undoneAfter is how long a claim may be undone after a call of unknown outcome.
const undoneAfter = 30 * time.Second

// job is what one client does: it borrows a slot, and returns it. Its calls may be repeated.
type job struct {
	*attack
	began     time.Time
	pool      *target
	label     string
	ttl, wait time.Duration
	options   []Option
	calls     sync.WaitGroup

	mu    sync.Mutex
	held  []*toldLease
	using []*period
}

// call is one call of a job.
type call struct {
	store  *cutStore
	after  time.Duration
	hangUp time.Duration // 0: the client waits for the answer
	cause  error
	lost   bool // the client is not told of an answer, and its gateway knows
}

func (a *attack) borrowers(store *cutStore, r *rand.Rand) {
	for a.pause(a.stop, time.Duration(r.IntN(40))*time.Millisecond) {
		keyed := r.IntN(5) > 1
		j := &job{
			attack: a, began: time.Now(), pool: a.targets[r.IntN(len(a.targets))], label: a.jobs.begin(store, keyed),
			ttl: []time.Duration{2 * time.Second, 10 * time.Second, 600 * time.Second, 600 * time.Second}[r.IntN(4)], wait: time.Duration(max(0, r.IntN(4000)-1500)) * time.Millisecond,
		}
		if j.pool.roomy {
			j.ttl = 5 * time.Second
		}
		j.options = []Option{WithLabel(j.label)}
		if keyed {
			j.options = append(j.options, WithRequestKey(j.label))
		}
		j.run(store, r)
		a.jobs.end(j.label)
	}
}

// ended returns when the job ended whose leases have a label; zero: not yet.
func (j *jobs) ended(label string) time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.live[label]
}

func (a *attack) any(r *rand.Rand) *cutStore { return a.stores[r.IntN(len(a.stores))] }

func (j *job) draw(store *cutStore, r *rand.Rand) call {
	c := call{store: store}
	switch r.IntN(10) {
	case 0, 1:
		c.hangUp, c.cause = time.Duration(1+r.IntN(1500))*time.Millisecond, ErrPlaceKept
	case 2:
		c.hangUp, c.cause = time.Duration(1+r.IntN(8_000))*time.Microsecond, ErrPlaceKept
	case 3:
		c.hangUp, c.cause = time.Duration(1+r.IntN(1500))*time.Millisecond, errClientGone
	case 4:
		c.lost = true
	}
	if len(j.options) == 1 && c.cause == ErrPlaceKept {
		c.cause = errClientGone
	}
	return c
}

// run makes the calls, some of them at a time, and returns what they were granted.
func (j *job) run(store *cutStore, r *rand.Rand) {
	if len(j.options) > 1 {
		for range max(0, r.IntN(5)-1) {
			stray := j.draw(j.any(r), r)
			stray.after = time.Duration(r.IntN(2)*r.IntN(600))*time.Millisecond + time.Duration(r.IntN(3000))*time.Microsecond
			j.repeated()
			j.calls.Go(func() { j.ask(stray) })
		}
	}
	granted := j.ask(j.draw(store, r))
	for n := r.IntN(4); n > 0 && !granted && len(j.options) > 1; n-- {
		j.repeated()
		granted = j.ask(j.draw(j.any(r), r))
	}
	if granted && r.IntN(4) == 0 {
		time.Sleep(time.Duration(r.IntN(400)) * time.Millisecond)
		j.mu.Lock()
		held := j.held[0]
		j.mu.Unlock()
		j.renewAt(j.any(r), held)
	}
	time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond)
	j.calls.Wait()
	j.returnAll(j.any(r), r)
	if len(j.options) > 1 && r.IntN(6) == 0 { // a copy of the request arrives late
		j.repeated()
		j.ask(j.draw(j.any(r), r))
		j.returnAll(j.any(r), r)
	}
}

func (j *job) repeated() {
	j.jobs.mu.Lock()
	defer j.jobs.mu.Unlock()
	j.jobs.repeats++
}

// ask makes a call, and reports whether the client has a lease.
func (j *job) ask(c call) bool {
	time.Sleep(c.after)
	ctx := j.t.Context()
	if c.hangUp > 0 {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		timer := time.AfterFunc(c.hangUp, func() { cancel(c.cause) })
		defer timer.Stop()
	}
	during := &period{from: time.Now()}
	j.pool.use(during)
	l, err := c.store.Borrow(ctx, j.pool.id, append([]Option{WithFixedTTL(j.ttl), WithWait(j.wait)}, j.options...)...)
	answered := time.Now()
	j.count("borrow", during.from, j.wait, err)
	if err != nil {
		until := answered
		if !errors.Is(err, ErrNoSlot) {
			until = answered.Add(undoneAfter + j.ttl)
		}
		j.pool.free(during, until)
		j.refused(c.store, period{during.from, answered}, err)
		return false
	}
	c.store.grants.add()
	if c.lost { // a repeat of which the client was told may have the lease
		began := time.Now()
		err := c.store.Abandon(context.Background(), l)
		j.count("abandon", began, 0, err)
		j.pool.free(during, time.Now().Add(undoneAfter+j.ttl))
		return false
	}
	held := j.tell(c.store, l, period{during.from, answered})
	if len(j.options) == 1 && j.pool.isOut(l.Position(), period{during.from, answered}) {
		j.ledger.Fail("%s: position %d is out of service", held, l.Position())
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.held, j.using = append(j.held, held), append(j.using, during)
	return true
}

// tell records a lease of which a client was told.
func (j *job) tell(store *cutStore, l *Lease, during period) *toldLease {
	a, p, label := j.attack, j.pool, j.label
	a.told.Lock()
	defer a.told.Unlock()
	key := leaseKey{p.id, l.Position(), l.Fence()}
	t, again := a.leases[key]
	if !again {
		t = &toldLease{Told: &natstest.Told{Fence: l.Fence(), Granted: time.Now(), Ends: l.ExpiresAt(), By: store.name + " to " + label}, lease: l, label: label, asked: j.began}
		a.leases[key] = t
		if p.missing(during) || a.evicted[key] {
			t.ended, t.Ends = true, t.Granted
		} else {
			a.ledger.Grant(slotOf{pool: p.id, position: l.Position()}, t.Told)
			a.ledger.Grant(label, t.Told) // no key has two at a time
		}
		if l.Position() >= p.count {
			a.ledger.Fail("position %d of %d", l.Position(), p.count)
		}
	} else if !t.ended && l.ExpiresAt().After(t.Ends) {
		a.ledger.Renewed(t.Told, l.ExpiresAt())
	}
	if t.lease.ID() != l.ID() || t.label != label {
		a.ledger.Fail("%s: told as %v, and to %s as %v", t, t.lease.ID(), label, l.ID())
	}
	return t
}

// refused checks a refusal.
func (j *job) refused(store *cutStore, during period, err error) {
	switch {
	case errors.Is(err, ErrNoSlot):
		if n := j.pool.used(during); j.pool.roomy && n <= j.pool.count {
			j.ledger.Fail("%s refused %s at %s, when %d of %d slots can have been in use: %v", store.name, j.label, timeOfDay(during.from), n-1, j.pool.count, err)
		}
	case errors.Is(err, ErrNoPool):
		if !j.pool.missing(during) {
			j.ledger.Fail("%s: no pool for %s, which was there: %v", store.name, j.label, err)
		}
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrPlaceKept), errors.Is(err, errClientGone):
	default:
		j.ledger.Fail("%s: %s: %v", store.name, j.label, err)
	}
}

// certain reports whether a lease must live.
func (a *attack) certain(t *toldLease) (ends time.Time, ok bool) {
	a.told.Lock()
	defer a.told.Unlock()
	return t.Ends, !t.ended
}

func (j *job) renewAt(store *cutStore, t *toldLease) {
	began := time.Now()
	l, err := store.Renew(j.t.Context(), j.pool.id, t.lease.ID(), j.ttl)
	answered := time.Now()
	ends, certain := j.certain(t)
	switch {
	case j.count("renew", began, 0, err):
		if l.Fence() != t.Fence || l.Position() != t.lease.Position() {
			j.ledger.Fail("a renewal changed %s to %d", t, l.Fence())
		}
		j.told.Lock()
		if !t.ended {
			j.ledger.Renewed(t.Told, l.ExpiresAt())
		}
		j.told.Unlock()
	case certain && !errors.Is(err, ErrUnavailable) && answered.Before(ends):
		j.ledger.Fail("%s, was lost before its renewal at %s by %s: %v", t, timeOfDay(answered), store.name, err)
	}
}

// returnAll returns what the job has. Sometimes it lets a short lease expire.
func (j *job) returnAll(store *cutStore, r *rand.Rand) {
	for _, t := range j.held {
		if ends, _ := j.certain(t); r.IntN(30) == 0 && time.Until(ends) < 3*time.Second && !j.pool.roomy {
			continue
		}
		j.told.Lock()
		certain, ends := !t.ended, t.Ends
		if t.ended = true; certain {
			j.ledger.GiveBack(t.Told)
		}
		j.told.Unlock()
		for again := false; ; again = true {
			began := time.Now()
			ok, err := store.Return(context.Background(), j.pool.id, t.lease.ID())
			j.count("return", began, 0, err)
			if errors.Is(err, ErrUnavailable) {
				time.Sleep(probePace)
				continue
			}
			if certain && !again && (err != nil || !ok) && time.Now().Before(ends) && !j.touched(j.pool, t, began) {
				j.ledger.Fail("%s until %s, was lost before its return at %s by %s: %v %v", t, timeOfDay(ends), timeOfDay(time.Now()), store.name, ok, err)
			}
			break
		}
	}
	for _, during := range j.using {
		j.pool.free(during, time.Now())
	}
	j.held, j.using = nil, nil
}
