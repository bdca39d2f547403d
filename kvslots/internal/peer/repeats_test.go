package peer_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

var updateRepeats = flag.Bool("update-repeats", false, "write the tables of REPEATS.md anew")

// repeats is a pool of one slot, and what two peers on one stream, a and b, do with one request
// key. The first call is at a, its repeat at b, or at a if there is one peer.
type repeats struct {
	a, b   *harness
	key    peer.Borrow
	lent   peer.Borrow // has the slot first
	first  uint64
	repeat uint64 // 0: there is none
}

func newRepeats(t *testing.T, ttl time.Duration) *repeats {
	cfg := peer.Config{ResumeGrace: grace}
	a := newHarnessOf(t, cfg)
	r := &repeats{a: a, b: a.join(cfg)}
	r.lent = a.borrow(a.newPool(1), 0)
	a.must(r.lent)
	r.key = a.borrow(r.lent.Pool, time.Minute)
	r.key.Request, r.key.TTL = a.hash(), ttl
	r.first = a.begin(a.repeat(r.key))
	a.pass(10 * time.Millisecond)
	return r
}

func (r *repeats) at(h *harness) uint64 { return h.begin(h.repeat(r.key)) }

func (r *repeats) goes(h *harness, call uint64, why error) {
	h.p.GiveUp(call, why, h.now)
	h.settle()
}

func (r *repeats) lend() { r.a.must(giveBack(r.lent)) }

// released lets b send what the test has held back.
func (r *repeats) released() {
	for _, h := range [2]*harness{r.a, r.b} {
		h.auto, h.paused = true, false
		h.deliver()
		h.settle()
	}
}

var repeatPhases = []struct {
	name, about string
	set         func(r *repeats)
}{
	{"waiting", "both wait, at two gateways", func(r *repeats) { r.repeat = r.at(r.b) }},
	{"place kept", "the first call has gone, and there is no repeat", func(r *repeats) { r.goes(r.a, r.first, peer.ErrPlaceKept) }},
	{"places kept", "both have gone", func(r *repeats) {
		r.repeat = r.at(r.b)
		r.goes(r.a, r.first, peer.ErrPlaceKept)
		r.goes(r.b, r.repeat, peer.ErrPlaceKept)
		r.repeat = 0
	}},
	{"taking", "the first call has gone; the repeat, at another gateway, has sent its ticket", func(r *repeats) {
		r.goes(r.a, r.first, peer.ErrPlaceKept)
		r.b.settle()
		r.b.auto = false
		r.repeat = r.at(r.b)
	}},
	{"taking over", "the first call waits; the repeat, at another gateway, has sent its ticket", func(r *repeats) {
		r.b.auto = false
		r.repeat = r.at(r.b)
	}},
	{"parting", "the first call has gone, and its gateway has sent that; the repeat is at the same gateway", func(r *repeats) {
		r.b, r.a = r.a, r.b
		r.b.auto = false
		r.goes(r.b, r.first, peer.ErrPlaceKept)
		r.repeat = r.at(r.b)
	}},
	{"resuming", "the first call was answered with the lease; the repeat, at another gateway, has sent its write", func(r *repeats) {
		r.lend()
		r.b.auto = false
		r.repeat = r.at(r.b)
	}},
	{"resuming untold", "the first call's answer was lost, and its gateway knows; the repeat, at the same gateway, has sent its write before", func(r *repeats) {
		r.lend()
		r.b, r.a = r.a, r.b
		r.b.auto = false
		r.repeat = r.at(r.b)
		r.b.settle()
		a := r.b.answers[r.first]
		r.b.p.Untold(&a, peer.ErrPlaceKept, r.b.now)
	}},
	{"begun again", "the first call has gone; the repeat came to the same gateway while the claim was in flight", func(r *repeats) {
		r.b, r.a = r.a, r.b
		r.b.auto = false
		r.a.must(giveBack(r.lent))
		r.a.pass(time.Millisecond)
		r.goes(r.b, r.first, peer.ErrPlaceKept)
		r.repeat = r.at(r.b)
	}},
	{"shared", "both wait at one gateway, and were answered with one lease", func(r *repeats) {
		r.b, r.a = r.a, r.b
		r.repeat = r.at(r.b)
		r.lend()
	}},
	{"answered", "both were answered with the lease", func(r *repeats) {
		r.lend()
		r.repeat = r.at(r.b)
	}},
}

func (r *repeats) leaseAt(h *harness) peer.Held {
	d := h.must(peer.ReadPool{Pool: r.key.Pool, MaxHolders: 1}).Detail
	if d == nil || len(d.Holders) == 0 {
		return peer.Held{Pool: r.key.Pool, Lease: h.hash()}
	}
	for _, e := range slices.Backward(h.stream) {
		if e.Key == slotKey(r.key.Pool, 0) {
			return peer.Held{Pool: r.key.Pool, Lease: e.Slot.Lease}
		}
	}
	panic("the slot is not in the stream")
}

var repeatEvents = []struct {
	name string
	ttl  time.Duration
	do   func(r *repeats)
}{
	{"nothing", 0, func(*repeats) {}},
	{"return", 0, func(r *repeats) { r.a.begin(peer.Return{Held: r.leaseAt(r.a)}) }},
	{"eviction", 0, func(r *repeats) {
		if d := r.a.must(peer.ReadPool{Pool: r.key.Pool, MaxHolders: 1}).Detail; len(d.Holders) > 0 {
			r.a.must(peer.Evict{Pool: r.key.Pool, Fence: d.Holders[0].Fence})
		}
	}},
	{"expiry", 3 * time.Second, func(r *repeats) { r.a.pass(4200 * time.Millisecond) }},
	{"renewal", 0, func(r *repeats) { r.a.begin(peer.Renew{Held: r.leaseAt(r.a), TTL: time.Hour}) }},
	{"deletion", 0, func(r *repeats) { r.a.must(peer.Delete{Pool: r.key.Pool}) }},
	{"registered anew", 0, func(r *repeats) {
		r.a.must(peer.Delete{Pool: r.key.Pool})
		r.a.must(peer.Register{Pool: r.key.Pool, Count: 1})
	}},
	{"catch-up", 0, func(r *repeats) { r.b.breakFeed() }},
	{"load", 0, func(r *repeats) {
		r.b.created = r.b.created.Add(time.Second)
		r.b.breakFeed()
	}},
	{"return, load", 0, func(r *repeats) {
		r.b.paused = true
		r.a.begin(peer.Return{Held: r.leaseAt(r.a)})
		r.b.paused, r.b.unfed = false, nil
		r.b.created = r.b.created.Add(time.Second)
		r.b.breakFeed()
	}},
	{"hang-up", 0, func(r *repeats) { r.goes(r.b, r.repeat, context.Canceled) }},
	{"disconnect", 0, func(r *repeats) { r.goes(r.b, r.repeat, peer.ErrPlaceKept) }},
	{"answers lost", 0, func(r *repeats) {
		for _, call := range [2]uint64{r.first, r.repeat} {
			if a, answered := r.b.answers[call]; answered && a.Err == nil {
				r.b.p.Untold(&a, peer.ErrPlaceKept, r.b.now)
				r.b.answers[call] = a
				r.b.settle()
			}
		}
	}},
	{"another caller", 0, func(r *repeats) { r.at(r.b) }},
	{"another ttl", 0, func(r *repeats) {
		r.key.TTL *= 2
		r.repeat = r.at(r.b)
	}},
	{"end of the wait", 0, func(r *repeats) { r.b.pass(r.key.Wait + 100*time.Millisecond) }},
	{"stop", 0, func(r *repeats) {
		r.b.p.Close(r.b.now)
		r.b.settle()
	}},
}

// outcome says what the repeat was answered with, and what the pool has then.
func (r *repeats) outcome() string {
	answer := ""
	if r.repeat != 0 {
		a, answered := r.b.answers[r.repeat]
		switch {
		case !answered:
			answer = "waits; "
		case a.Err == nil:
			answer = "lease; "
		default:
			answer = errorName(a.Err) + "; "
		}
	}
	id := r.a.begin(peer.ReadPool{Pool: r.key.Pool})
	a := r.a.answers[id]
	if errors.Is(a.Err, peer.ErrNoPool) {
		return answer + "no pool"
	}
	use := "free"
	if a.Detail.State.InUse > 0 {
		use = "lent"
		if h := r.leaseAt(r.a); h.Lease == r.lent.Lease {
			use = "other"
		}
	}
	return fmt.Sprintf("%s%s, line %d", answer, use, a.Detail.State.Waiting)
}

func errorName(err error) string {
	for name, e := range map[string]error{
		"no pool": peer.ErrNoPool, "no slot": peer.ErrNoSlot, "unavailable": peer.ErrUnavailable, "gone": peer.ErrPlaceKept,
		"gone ": context.Canceled, "other key": peer.ErrKeyReused, "closed": peer.ErrClosed,
	} {
		if errors.Is(err, e) {
			return strings.TrimSpace(name)
		}
	}
	return err.Error()
}

// TestRepeats checks the tables of REPEATS.md: what follows when an event meets a repeat in a phase.
func TestRepeats(t *testing.T) {
	var lines []string
	head := "| event |"
	for _, p := range repeatPhases {
		lines = append(lines, fmt.Sprintf("| %s | %s |", p.name, p.about))
		head += " " + p.name + " |"
	}
	lines = append(lines, head)
	undisturbed := map[string]string{} // outcomes of the first row, by phase
	for _, e := range repeatEvents {
		row := "| " + e.name + " |"
		for _, p := range repeatPhases {
			r := newRepeats(t, cmp.Or(e.ttl, 20*time.Minute))
			p.set(r)
			e.do(r)
			r.released()
			r.a.pass(2 * grace)
			outcome := r.outcome()
			if outcome == undisturbed[p.name] {
				outcome = ""
			}
			undisturbed[p.name] = cmp.Or(undisturbed[p.name], outcome)
			row += strings.TrimRight(" "+outcome, " ") + " |"
		}
		lines = append(lines, row)
	}
	const name = "REPEATS.md"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	old := strings.Split(string(text), "\n")
	for _, line := range lines {
		first, _, _ := strings.Cut(line[2:], " |")
		i := slices.IndexFunc(old, func(s string) bool { return strings.HasPrefix(s, "| "+first+" |") })
		switch {
		case i < 0:
			t.Errorf("%s has no line %q", name, line)
		case *updateRepeats:
			old[i] = line
		case old[i] != line:
			t.Errorf("%s says\n%s\nbut this is so:\n%s", name, old[i], line)
		}
	}
	if *updateRepeats {
		if err := os.WriteFile(name, []byte(strings.Join(old, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
