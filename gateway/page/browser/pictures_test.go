package browser

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

var (
	dark   = shape{width: 1200, height: 800, dark: true}
	narrow = shape{width: 360, height: 740}
)

// TestPictures makes pictures of what people see, to be looked at.
func TestPictures(t *testing.T) {
	g := serve(t, "--ui", "admin")
	p := open(t, g, desktop)
	p.until(t, "!document.querySelector('#empty').hidden")
	p.live(t)
	p.picture(t, "empty")

	accounts, leases := populate(t, g)
	for name, s := range map[string]shape{"light": desktop, "dark": dark, "narrow": narrow} {
		p := open(t, g, s)
		p.until(t, "document.querySelectorAll('#pools tbody tr').length >= 9")
		p.live(t)
		p.until(t, "[...document.querySelectorAll('#pools td:nth-child(4)')].some((cell) => parseInt(cell.textContent) >= 3)")
		p.picture(t, name)
		p.fits(t, s)
		p.see(t, accounts)
		g.giveBack(t, id(2), leases[0]) // which a borrower in line gets
		leases = leases[1:]
		p.until(t, "document.querySelectorAll('.chart strong')[0].textContent === '1'")
		p.picture(t, name+"-pool")
		p.fits(t, s)
	}
}

// fits wants that nothing is beyond the right edge.
func (p *tab) fits(t *testing.T, s shape) {
	t.Helper()
	if wide := eval[int](t, p, "document.documentElement.scrollWidth"); int64(wide) > s.width {
		t.Errorf("of %d pixels, the page takes %d", s.width, wide)
	}
}

// id returns the UUID of a pool.
func id(n int) string { return fmt.Sprintf("%08x%s", n, pool[8:]) }

// populate makes pools as a company may have them, and returns the hash of one that has everything,
// and its leases.
func populate(t *testing.T, g *gateway) (accounts string, leases []string) {
	t.Helper()
	for i, of := range []struct {
		name          string
		count, lent   int
		out, waiting  int
		label, waiter string
		paused        bool
	}{
		{"printers", 3, 2, 0, 0, "office@front:311 print", "", false},
		{"staging database", 1, 1, 0, 2, "deploy@web1:4242 migrate", "deploy@web%d:901 migrate", false},
		{"test accounts", 8, 5, 1, 4, "ci@runner%d:5512 e2e", "ci@runner1%d:77 e2e --shard 2", false},
		{"license seats", 120, 64, 2, 0, "cad@workstation%d", "", false},
		{"gpu", 4, 4, 0, 1, "train@node%d:88 resnet", "train@node%d:12 llm", false},
		{"android devices", 16, 3, 3, 0, "ci@farm%d", "", false},
		{"", 5, 0, 0, 0, "", "", false},
		{"nightly jobs", 2, 0, 0, 0, "", "", true},
		{"crawler: 8 requests a site", 8, 7, 0, 0, "crawler@eu%d", "", false},
	} {
		hash := g.register(t, id(i), of.count, of.name)
		for n := range of.out {
			g.ask(t, nil, "PUT", fmt.Sprintf("v1/pools/%s/positions/%d", id(i), of.count-1-n), `{"out":true,"reason":"screen broken"}`)
		}
		for n := range of.lent {
			lease := g.borrow(t, id(i), 1800+97*n, numbered(of.label, n))
			if i == 2 {
				leases = append(leases, lease)
			}
		}
		if i == 2 {
			// What is left free is out of service, so that borrowers wait.
			for position := range of.count - of.out - of.lent {
				g.ask(t, nil, "PUT", fmt.Sprintf("v1/pools/%s/positions/%d", id(i), of.lent+position), `{"out":true,"reason":"password is being changed"}`)
			}
			accounts = hash
		}
		for n := range of.waiting {
			g.wait(t, id(i), numbered(of.waiter, n))
		}
		if of.paused {
			g.ask(t, nil, "PUT", "v1/pools/"+id(i)+"/pause", `{"out":true,"reason":"upgrade until 18:00"}`)
		}
	}
	return accounts, leases
}

func numbered(label string, n int) string { return strings.ReplaceAll(label, "%d", strconv.Itoa(n)) }

// Large pools stay usable: the page lists a hundred slots and places at a time.
func TestLargePool(t *testing.T) {
	g := serve(t)
	hash := g.register(t, pool, 1000, "seats")
	each(1000, 32, func(n int) {
		if err := g.try(t.Context(), nil, "POST", "l/"+pool+"/borrow", fmt.Sprintf(`{"ttl":1800,"label":"seat@desk%d"}`, n)); err != nil {
			t.Error(err)
		}
	})
	p := open(t, g, desktop)
	p.see(t, hash)
	p.until(t, "document.querySelectorAll('#slots tbody tr').length === 100")
	p.picture(t, "1000-slots")
	p.click(t, "#slots-pages button:last-child")
	p.until(t, "document.querySelector('#slots tbody td').textContent === '100'")

	flood(t, g, pool, 1000)
	p.until(t, "document.querySelector('#pool-facts [data-fact=waiting]').textContent === '1,000'")
	eval[bool](t, p, "scrollTo(0, 0), true")
	p.picture(t, "1000-waiters")
	p.click(t, "#line-pages button:last-child")
	p.until(t, "document.querySelector('#line tbody td').textContent === '101'")
	if rows := eval[int](t, p, "document.querySelectorAll('tr').length"); rows > 300 {
		t.Errorf("the page has %d rows", rows)
	}
}

// each calls do with the numbers below n, several at a time.
func each(n, atOnce int, do func(n int)) {
	var all sync.WaitGroup
	next := make(chan int)
	for range atOnce {
		all.Go(func() {
			for n := range next {
				do(n)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}

// flood has borrowers wait in line until the test ends.
func flood(t *testing.T, g *gateway, pool string, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		all.Wait()
		http.DefaultClient.CloseIdleConnections()
	})
	for i := range n {
		all.Go(func() {
			_ = g.try(ctx, nil, "POST", "l/"+pool+"/borrow", fmt.Sprintf(`{"ttl":60,"wait":3600,"label":"job@runner%d"}`, i)) // ended by the test
		})
	}
	var state struct{ Waiting int }
	for end := time.Now().Add(limit); state.Waiting < n; {
		if g.ask(t, &state, "GET", "l/"+pool, ""); time.Now().After(end) {
			t.Fatalf("%d borrowers wait", state.Waiting)
		}
	}
}

// The tests notice what they forbid.
func TestPolicyHolds(t *testing.T) {
	g := serve(t)
	p := open(t, g, desktop)
	p.live(t)
	for _, attempt := range []string{
		"(async () => { try { await fetch('http://other.invalid/'); return false; } catch { return true; } })()",
		"(() => { const s = document.createElement('style'); s.textContent = 'body{display:none}'; document.head.append(s); return getComputedStyle(document.body).display !== 'none'; })()",
		"(() => { try { document.body.innerHTML = '<i>'; return false; } catch { return true; } })()",
	} {
		if !result(t, p, chromedp.Evaluate[bool](attempt, chromedp.EvalAwaitPromise)) {
			t.Errorf("the policy allows %s", attempt)
		}
	}
	eventually(t, "note of what broke the policy", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.wrong) > 0
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrong, p.urls = nil, nil
}
