package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
)

// figuresVariable is the path of a nats-server. With it TestFigures runs, which needs minutes and
// some 15,000 open files.
const figuresVariable = "KVSLOTS_FIGURES"

const (
	manyPools   = 5000
	manyWaiters = 10_000
	manyPages   = 20
	lines       = 1000 // pools with a line
	window      = 20 * time.Second
)

// TestFigures measures the page beside many pools and waiters.
func TestFigures(t *testing.T) {
	if os.Getenv(figuresVariable) == "" {
		t.Skip("only with " + figuresVariable)
	}
	nats := natsServer(t, os.Getenv(figuresVariable))
	var gateways []*gateway
	for range 3 {
		gateways = append(gateways, join(t, nats))
	}
	first := gateways[0]
	each(manyPools, 32, func(n int) {
		g := gateways[n%3]
		if err := g.try(t.Context(), nil, "PUT", "l/"+id(n), fmt.Sprintf(`{"count":4,"name":"pool %d"}`, n)); err != nil {
			t.Error(err)
		}
		for range 4 {
			if n < lines {
				if err := g.try(t.Context(), nil, "POST", "l/"+id(n)+"/borrow", `{"ttl":3600,"label":"holder"}`); err != nil {
					t.Error(err)
				}
			}
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	var waiting sync.WaitGroup
	t.Cleanup(func() { cancel(); waiting.Wait() })
	for n := range manyWaiters {
		waiting.Go(func() {
			_ = gateways[n%3].try(ctx, nil, "POST", "l/"+id(n%lines)+"/borrow", `{"ttl":60,"wait":3600,"label":"waiter"}`)
		})
	}
	var state struct{ Waiting, Peers int }
	for end := time.Now().Add(5 * limit); state.Waiting < manyWaiters; {
		if first.ask(t, &state, "GET", "v1/page", ""); time.Now().After(end) {
			t.Fatalf("%d borrowers wait", state.Waiting)
		}
	}
	t.Logf("%d gateways, %d pools, %d waiters", state.Peers, manyPools, manyWaiters)

	p := open(t, first, desktop)
	p.until(t, "document.querySelectorAll('#pools tbody tr').length === 50")
	p.live(t)
	t.Logf("first contentful paint after %.0f ms; the answer of /v1/pools was there after %.0f ms, and took %.0f ms",
		eval[float64](t, p, "performance.getEntriesByName('first-contentful-paint')[0].startTime"),
		eval[float64](t, p, pools+"[0].responseEnd"), eval[float64](t, p, pools+"[0].duration"))

	t.Logf("the first gateway, quiet, with 1 page: %.1f %% of a core", first.processor(t, nil))
	churn := func() { churn(t, gateways[1]) }
	before, reads := p.busy(t), eval[float64](t, p, pools+".length")
	t.Logf("the same, with 10 pairs a second elsewhere: %.1f %%", first.processor(t, churn))
	n := eval[float64](t, p, pools+".length") - reads
	t.Logf("%.0f updates of the table took the page %.1f ms each, and the gateway %.0f ms", n, 1000*(p.busy(t)-before)/n,
		eval[float64](t, p, pools+".slice(-10).reduce((sum, e) => sum + e.duration, 0) / 10"))

	for range manyPages - 1 {
		open(t, first, desktop).live(t)
	}
	t.Logf("the first gateway, quiet, with %d pages: %.1f %%", manyPages, first.processor(t, nil))
	t.Logf("the same, with 10 pairs a second elsewhere: %.1f %%", first.processor(t, churn))
}

// pools are the requests for the table.
const pools = "performance.getEntriesByType('resource').filter((e) => e.name.includes('/v1/pools?'))"

// natsServer starts a nats-server, and returns its URL.
func natsServer(t *testing.T, path string) string {
	t.Helper()
	ports := t.TempDir()
	server := exec.Command(path, "--jetstream", "--store_dir", t.TempDir(), "--addr", "127.0.0.1", "--port", "-1", "--ports_file_dir", ports)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	var listening struct{ NATS []string }
	eventually(t, "nats-server", func() bool {
		files, _ := filepath.Glob(filepath.Join(ports, "*.ports"))
		if len(files) == 0 {
			return false
		}
		content, _ := os.ReadFile(files[0])
		return json.Unmarshal(content, &listening) == nil && len(listening.NATS) > 0
	})
	return listening.NATS[0]
}

// join starts a gateway on a NATS server.
func join(t *testing.T, nats string) *gateway {
	t.Helper()
	g := &gateway{addr: "127.0.0.1:0", nats: nats, flags: []string{"--max-waiters-total", "0"}}
	t.Cleanup(func() { g.kill() })
	g.start(t)
	return g
}

// churn borrows and returns ten times a second, for the window.
func churn(t *testing.T, g *gateway) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(window); time.Now().Before(end); <-tick.C {
		g.giveBack(t, id(manyPools-1), g.borrow(t, id(manyPools-1), 60, "churn"))
	}
}

// processor returns the share of a core that the gateway takes while do runs, in percent.
func (g *gateway) processor(t *testing.T, do func()) float64 {
	t.Helper()
	before, began := g.ticks(t), time.Now()
	if do != nil {
		do()
	} else {
		<-time.After(window) // there is nothing to wait for: this measures quiet
	}
	const perSecond = 100 // USER_HZ
	return 100 * float64(g.ticks(t)-before) / perSecond / time.Since(began).Seconds()
}

func (g *gateway) ticks(t *testing.T) (ticks int) {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", g.process.Process.Pid))
	if err != nil {
		t.Skip(err) // not Linux
	}
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	for _, field := range fields[11:13] { // utime, stime
		n, _ := strconv.Atoi(field)
		ticks += n
	}
	return ticks
}

// busy returns how long the page's thread has computed, in seconds.
func (p *tab) busy(t *testing.T) (seconds float64) {
	t.Helper()
	call(t, p, performance.Enable, performance.EnableParams{})
	p.do(t, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		all, err := cdp.Call(ctx, target, performance.GetMetrics, cdp.Empty{})
		for _, metric := range all.Metrics {
			if metric.Name == "TaskDuration" {
				seconds = metric.Value
			}
		}
		return err
	}))
	return seconds
}
