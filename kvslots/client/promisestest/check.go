package promisestest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// slack is how many times as long as on an idle machine a call may take, since tests share a busy one. A client that hangs
// takes longer yet.
const slack = 3

// rounds is how often Check goes through the cases.
var rounds = map[bool]int{false: 1, true: 10}[os.Getenv("KVSLOTS_SOAK") != ""]

// leftTime is how soon what a call has left in the store must be gone: a gateway keeps the place of a client
// that does not leave the line for longer, kvslots.DefaultResumeGrace.
const leftTime = 8 * time.Second

// Check drives a driver through the cases, in front of a gateway of its own, and logs a table. It starts the
// driver's command, which must not be started.
func Check(t *testing.T, driver *exec.Cmd) {
	store, lending, gateway := startGateway(t)
	secondStore, _, secondGateway := startGateway(t)
	ask := start(t, driver)
	var table strings.Builder
	columns := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "case\tcall\toutcome\tseconds\tgiven back\tseconds\t")
	for i := range rounds * len(promises) {
		p := promises[i%len(promises)]
		t.Run(p.do+" "+p.name, func(t *testing.T) {
			pool := uuid.New()
			kvslotstest.Must(t, kvslotstest.Err(store.Register(t.Context(), pool, 1)))
			faults := p.faults
			var other *second
			switch {
			case p.second:
				other = newSecond(t, store, lending, pool, p.do)
				faults = append(faults, other.behind(hold(t, store, pool)))
			case p.taken:
				hold(t, store, pool)
			}
			c := call{URL: startProxy(t, gateway, faults), Do: p.do, Pool: pool.String(), Name: "x", TTL: 60, Wait: p.wait, Cancel: p.cancel, Lookup: p.lookup}
			if p.evicted {
				c.Hold, c.TTL = true, 600
				go evict(t, store, pool, p.do)
			}
			if p.twoStores {
				kvslotstest.Must(t, kvslotstest.Err(secondStore.Register(t.Context(), pool, 1)))
				c.URL += "," + secondGateway
			}
			if p.lookup > 0 {
				c.URL = strings.Replace(c.URL, "127.0.0.1", slowHost, 1)
			}
			before := countsOf(t, lending)
			got := ask(t, c)
			p.compare(t, got)
			if other != nil {
				other.leave()
				<-other.left
			}
			for range p.calls - 1 {
				p.compare(t, ask(t, c))
			}
			fmt.Fprintf(columns, "%s\t%s\t%s\t%.1f\t%s\t%.1f\t\n", p.name, p.do, got.Outcome, got.Took, got.Back, got.BackTook)
			if p.want == granted || p.want == canceled {
				wantNothing(t, store, pool, p.taken)
			}
			if p.twoStores {
				wantNothing(t, secondStore, pool, false)
			}
			if p.taken {
				p.compareCounts(t, before, countsOf(t, lending))
			}
		})
	}
	_ = columns.Flush()
	t.Log("\n" + table.String())
}

// maxWait is the longest wait that the gateway grants: clients repeat the requests with a longer one.
const maxWait = 2 * time.Second

func startGateway(t *testing.T) (store *kvslots.Store, lending *gateway.Lending, url string) {
	store = kvslotstest.New(t, kvslots.Config{ResumeGrace: kvslots.DefaultResumeGrace})
	lending = gateway.NewLending()
	lending.MaxWait = maxWait
	web := httptest.NewServer(gateway.New(gateway.Config{
		Store: store, Lending: lending, Logger: logtest.Logger(),
		Dialects: []gateway.Dialect{
			gateway.NewLibrary(store, lending, logtest.Logger()),
			gateway.NewDflockd(store, gateway.DflockdConfig{Lending: lending, Turns: gateway.NewTurns()}),
		},
	}).Handler())
	t.Cleanup(web.Close)
	return store, lending, web.URL
}

// start starts a driver. It returns a function that passes it a call.
func start(t *testing.T, driver *exec.Cmd) func(t *testing.T, c call) outcome {
	in, err := driver.StdinPipe()
	kvslotstest.Must(t, err)
	out, err := driver.StdoutPipe()
	kvslotstest.Must(t, err)
	var trouble strings.Builder
	driver.Stderr = &trouble
	kvslotstest.Must(t, driver.Start())
	t.Cleanup(func() {
		_ = in.Close()
		if err := driver.Wait(); err != nil || t.Failed() {
			t.Logf("the driver: %v\n%s", err, trouble.String())
		}
	})
	lines := bufio.NewScanner(out)
	return func(t *testing.T, c call) (got outcome) {
		kvslotstest.Must(t, json.NewEncoder(in).Encode(c))
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &got) != nil {
			t.Fatalf("the driver answers %q, %v", lines.Text(), lines.Err())
		}
		return got
	}
}

func (p promise) compare(t *testing.T, got outcome) {
	if got.Outcome == "unsupported" {
		t.Skip("the client cannot cancel")
	}
	if got.Outcome != p.want {
		t.Errorf("the outcome is %q, not %q", got.Outcome, p.want)
	}
	if got.Took < p.least || got.Took > slack*p.most {
		t.Errorf("it took %.1f s, not between %.1f and %.1f", got.Took, p.least, slack*p.most)
	}
	if p.want == granted && (got.Back != "yes" || got.BackTook > kvslots.ReturnTimeout.Seconds()) {
		t.Errorf("given back: %q, after %.1f s", got.Back, got.BackTook)
	}
}

// counts are what a gateway's metrics count of requests without a slot.
type counts struct{ timeouts, refusals float64 }

func countsOf(t *testing.T, lending *gateway.Lending) (c counts) {
	all := prometheus.NewRegistry()
	all.MustRegister(lending)
	families, err := all.Gather()
	kvslotstest.Must(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			switch f.GetName() {
			case "kvslots_timeouts_total":
				c.timeouts += m.GetCounter().GetValue()
			case "kvslots_refusals_total":
				c.refusals += m.GetCounter().GetValue()
			}
		}
	}
	return c
}

// compareCounts checks that a wait in vain is one timeout, a call that does not wait one refusal, and a canceled one neither.
func (p promise) compareCounts(t *testing.T, before, after counts) {
	want, calls := before, float64(max(p.calls, 1))
	switch {
	case p.want == taken && p.wait > 0:
		want.timeouts += calls
	case p.want == taken:
		want.refusals += calls
	}
	if after != want {
		t.Errorf("counted are %+v, and before %+v", after, before)
	}
}

// hold takes the lock and the pool's slot, until giveBack is called, or the test ends.
func hold(t *testing.T, store *kvslots.Store, pool uuid.UUID) (giveBack func()) {
	session, err := kvslots.NewSession(t.Context(), store)
	kvslotstest.Must(t, err)
	kvslotstest.Must(t, session.Mutex("x").Lock(t.Context()))
	lease, err := store.Borrow(t.Context(), pool, kvslots.WithFixedTTL(time.Hour), kvslots.WithWait(0))
	kvslotstest.Must(t, err)
	giveBack = func() {
		_ = session.Close(context.Background())
		_, _ = lease.Return(context.Background())
	}
	t.Cleanup(giveBack)
	return giveBack
}

// evict ends the lease of a call, when it has one.
func evict(t *testing.T, store *kvslots.Store, pool uuid.UUID, do string) {
	of := map[string]kvslots.PoolRef{borrow: kvslots.ByID(pool), lock: kvslots.ByName("x")}[do]
	for t.Context().Err() == nil {
		detail, err := store.ReadPool(t.Context(), of, kvslots.DetailPage{})
		if err == nil && len(detail.Holders) > 0 {
			_, _ = store.Evict(t.Context(), of, 0, detail.Holders[0].Fence)
			return
		}
		<-time.After(10 * time.Millisecond)
	}
}

// wantNothing checks that nothing is left in the store, except what another client holds.
func wantNothing(t *testing.T, store *kvslots.Store, pool uuid.UUID, taken bool) {
	held := 0
	if taken {
		held = 1
	}
	began := time.Now()
	for _, of := range []kvslots.PoolRef{kvslots.ByID(pool), kvslots.ByName("x")} {
		for {
			detail, _ := store.ReadPool(t.Context(), of, kvslots.DetailPage{}) // a lock that is free has no entry
			if detail.Waiting == 0 && detail.InUse == held {
				break
			}
			if time.Since(began) > leftTime {
				t.Errorf("%d are held and %d wait after the call", detail.InUse, detail.Waiting)
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}
