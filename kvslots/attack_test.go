//go:build unix

package kvslots

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

// attack has clients, operators and readers of events at three stores, while servers and links
// fail, and checks what each of them was told: it is listed where it is checked (tell, refused,
// returnAll, audit, checkEvents, checkOrder).
type attack struct {
	*cutSoak
	targets []*target
	readers []*eventReader
	jobs    jobs

	told    sync.Mutex
	leases  map[leaseKey]*toldLease
	evicted map[leaseKey]bool

	faulty sync.Mutex
	faults []period

	reported map[string]bool // violations
}

// leaseKey names a lease.
type leaseKey struct {
	pool     uuid.UUID
	position int
	fence    uint64
}

// toldLease is a lease of which a client was told.
type toldLease struct {
	*natstest.Told
	lease *Lease
	label string
	asked time.Time
	ended bool // it was returned, or an operator may have ended it
}

// period is a time. It is open while to is zero.
type period struct{ from, to time.Time }

func (s period) overlaps(o period) bool {
	return (s.to.IsZero() || o.from.Before(s.to)) && (o.to.IsZero() || s.from.Before(o.to))
}

func overlap(list []period, o period) (n int) {
	for _, s := range list {
		if s.overlaps(o) {
			n++
		}
	}
	return n
}

// attackFaults are faults of a store's link.
var attackFaults = []struct {
	name string
	do   func(*link, *rand.Rand)
}{
	{"link cut", func(l *link, _ *rand.Rand) { l.cut() }},
	{"link cut thrice", func(l *link, r *rand.Rand) {
		for range 3 {
			l.cut()
			time.Sleep(time.Duration(r.IntN(800)) * time.Millisecond)
		}
	}},
	{"link paused", func(l *link, r *rand.Rand) { l.pause(time.Duration(r.IntN(3000)) * time.Millisecond) }},
	{"link paused for long", func(l *link, r *rand.Rand) { l.pause(6*time.Second + time.Duration(r.IntN(12000))*time.Millisecond) }},
}

// TestSoakAttack runs for 25 minutes, or what KVSLOTS_ATTACK says.
func TestSoakAttack(t *testing.T) {
	soak(t)
	length := 25 * time.Minute
	if d, err := time.ParseDuration(os.Getenv("KVSLOTS_ATTACK")); err == nil {
		length = d
	}
	a := &attack{cutSoak: newCutSoak(t, *historySeed), leases: map[leaseKey]*toldLease{}, evicted: map[leaseKey]bool{}, reported: map[string]bool{}}
	a.jobs.live = map[string]time.Time{}
	for _, p := range []*target{{count: 1}, {count: 3}, {count: 5}, {count: 1}, {count: 2, deleted: true}, {count: 10, roomy: true}, {count: 10, roomy: true}} {
		p.id, p.out = newPool(t, a.stores[0].Store, p.count), map[int][]period{}
		a.targets = append(a.targets, p)
	}
	a.read()
	for i, store := range a.stores {
		for n := range 12 {
			a.running.Go(func() { a.borrowers(store, a.random(100*i+n)) })
		}
		for n := range 2 {
			a.running.Go(func() { a.enqueuers(a.random(100*i + 50 + n)) })
		}
	}
	a.running.Go(func() { a.evictor(a.random(901)) })
	a.running.Go(func() { a.outOfService(a.random(902)) })
	a.running.Go(func() { a.deleter(a.random(903)) })
	a.running.Go(a.auditor)
	faults := a.inject(length)
	close(a.stop)
	a.running.Wait()
	a.finish()
	a.report()
	t.Logf("%d faults; %d jobs, with %d repeats of their calls; %d readers of events moved %d times and started over %d times; %d events, %d leases compared, of %d that clients were told of",
		faults, a.jobs.number, a.jobs.repeats, len(a.readers), a.moves(), a.startsOver(), a.events(), a.checkEvents(), len(a.leases))
	a.wrong("in the end")
}

// inject injects faults for some time, each after all stores grant again.
func (a *attack) inject(length time.Duration) (faults int) {
	r := a.random(900)
	var deck []int
	for until := time.Now().Add(length); time.Now().Before(until); faults++ {
		if len(deck) == 0 {
			deck = r.Perm(len(serverFaults) + 2*len(attackFaults))
		}
		n := deck[0]
		deck = deck[1:]
		leader := a.cluster.leader(a.t)
		name, during := "", a.fault()
		began := time.Now()
		if n < len(serverFaults) {
			f := serverFaults[n]
			name = f.name
			f.do(a.cluster, leader, (leader+1+r.IntN(2))%3, f.least*time.Second+time.Duration(r.Int64N(int64((f.most-f.least)*time.Second)+1)))
		} else {
			f, store := attackFaults[(n-len(serverFaults))/2], a.stores[r.IntN(len(a.stores))]
			name = f.name + " of " + store.name
			f.do(store.link, r)
		}
		end := time.Now()
		for _, store := range a.stores {
			eventually(a.t, "a store grants again", func() bool { _, ok := store.grants.after(end); return ok })
		}
		during()
		time.Sleep(time.Second + time.Duration(r.IntN(3000))*time.Millisecond)
		a.goHome()
		a.t.Logf("%s %s, for %.1f s", timeOfDay(began), name, end.Sub(began).Seconds())
		a.wrong(name + " at " + timeOfDay(began))
	}
	return faults
}

// fault notes that a fault begins, and returns what notes its end.
func (a *attack) fault() (end func()) {
	a.faulty.Lock()
	defer a.faulty.Unlock()
	n := len(a.faults)
	a.faults = append(a.faults, period{from: time.Now()})
	return func() {
		a.faulty.Lock()
		defer a.faulty.Unlock()
		a.faults[n].to = time.Now()
	}
}

// disturbed reports whether a fault was active.
func (a *attack) disturbed(during period) bool {
	a.faulty.Lock()
	defer a.faulty.Unlock()
	return overlap(a.faults, during) > 0
}

// wrong reports the violations that it has not reported yet.
func (a *attack) wrong(when string) {
	_, wrong := a.ledger.Check()
	wrong = slices.DeleteFunc(wrong, func(text string) bool { return a.reported[text] })
	for _, text := range wrong {
		a.reported[text] = true
	}
	if len(wrong) > 0 {
		a.t.Errorf("%s: %d violations, the first ones:\n%s", when, len(wrong), strings.Join(wrong[:min(len(wrong), 30)], "\n"))
	}
}
