package browser

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Ids of pools.
const (
	pool  = "9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01"
	other = "5d6a3a0e-8a0b-4f5e-9d0c-3b7f1a2c4e02"
)

// A borrow elsewhere appears: within 200 ms where the machine has nothing else to do.
func TestBorrowElsewhere(t *testing.T) {
	g := serve(t)
	hash := g.register(t, pool, 3, "printers")
	p := open(t, g, desktop)
	p.until(t, "document.querySelector('#pools tbody tr')")
	p.live(t)
	measure := func(where, appears string) {
		var took []time.Duration
		for range 7 {
			p.settle(t)
			p.watchFor(t, appears)
			at := time.Now()
			lease := g.borrow(t, pool, 60, "ci@build7")
			took = append(took, p.seenAfter(t, at))
			p.settle(t)
			g.giveBack(t, pool, lease)
			p.until(t, "!("+appears+")")
		}
		slices.Sort(took)
		t.Logf("%s: a borrow appears %v after it was sent (median), at most %v", where, took[len(took)/2], took[len(took)-1])
		if took[0] > 5*time.Second {
			t.Errorf("a borrow took at least %v to appear", took[0])
		}
	}
	measure("in the table", "document.querySelector('#pools .figures')?.textContent === '1 / 3'")
	p.see(t, hash)
	measure("in the pool", "document.querySelector('#slots')?.textContent.includes('ci@build7')")
}

// A return moves the line, and the charts count the grant.
func TestLineMoves(t *testing.T) {
	g := serve(t)
	hash := g.register(t, pool, 1, "printers")
	lease := g.borrow(t, pool, 600, "first")
	g.wait(t, pool, "second")
	g.wait(t, pool, "third")
	p := open(t, g, desktop)
	p.see(t, hash)
	p.until(t, "document.querySelector('#line tbody').innerText.match(/1\\s+second[^]*2\\s+third/)")
	g.giveBack(t, pool, lease)
	p.until(t, "document.querySelector('#slots tbody').innerText.includes('second')")
	p.until(t, "document.querySelector('#line tbody').innerText.match(/^1\\s+third/)")
	p.until(t, "document.querySelector('.chart strong').textContent === '1'")
}

func TestExpiredLeaseGoes(t *testing.T) {
	g := serve(t)
	hash := g.register(t, pool, 2, "printers")
	g.borrow(t, pool, 600, "stays")
	p := open(t, g, desktop)
	p.see(t, hash)
	g.borrow(t, pool, 2, "expires")
	p.until(t, "document.querySelector('#slots tbody').innerText.includes('expires')")
	p.until(t, "!document.querySelector('#slots tbody').innerText.includes('expires')")
	p.until(t, "document.querySelectorAll('.chart strong')[2].textContent === '1'")
	if !strings.Contains(p.text(t, "#slots tbody"), "stays") {
		t.Error("the other lease has gone, too")
	}
}

// A crash of the gateway is shown, and the page goes on by itself when there is one again.
func TestRestart(t *testing.T) {
	g := serve(t)
	g.register(t, pool, 2, "printers")
	p := open(t, g, desktop)
	p.until(t, "document.querySelector('#pools tbody tr')")
	p.live(t)
	g.kill()
	p.until(t, "document.querySelector('#live').dataset.state === 'gone' && !document.querySelector('#notice').hidden")
	p.picture(t, "gateway-gone")
	g.start(t)
	g.borrow(t, pool, 60, "")
	p.live(t)
	p.until(t, "document.querySelector('#notice').hidden && document.querySelector('#pools .figures').textContent === '1 / 2'")
}

// The token is asked for, and is kept for the tab, and nowhere else.
func TestToken(t *testing.T) {
	const token = "correct-horse-battery-staple"
	g := serve(t, "--auth-token", token)
	g.token = token
	g.register(t, pool, 2, "printers")
	p := open(t, g, desktop)
	p.until(t, "document.querySelector('#token').open")
	p.write(t, "#token-text", "wrong-horse-battery-staple"+kb.Enter)
	p.until(t, "document.querySelector('#token').open && !document.querySelector('#token-wrong').hidden")
	p.picture(t, "wrong-token")
	p.write(t, "#token-text", token+kb.Enter)
	p.until(t, "!document.querySelector('#token').open && document.querySelector('#pools tbody tr')")
	p.live(t)
	kept := eval[string](t, p, "JSON.stringify([localStorage, document.cookie, location.href, history.state, document.documentElement.outerHTML])")
	if strings.Contains(kept, token) {
		t.Errorf("the page keeps the token: %s", kept)
	}
	p.do(t, chromedp.Reload())
	p.until(t, "document.querySelector('#pools tbody tr')")
	if eval[bool](t, p, "document.querySelector('#token').open") {
		t.Error("the token is asked for again")
	}
}

// An empty page names a command, and one of an unknown hash says so.
func TestNothingThere(t *testing.T) {
	g := serve(t)
	p := open(t, g, desktop)
	p.until(t, "document.querySelector('#empty').textContent.includes('kvslots lock nightly')")
	eval[string](t, p, "location.hash = 'pool="+strings.Repeat("0", 32)+"'")
	p.until(t, "document.querySelector('#slots-empty').textContent.startsWith('Unknown')")
	p.until(t, "document.querySelector('.chart').innerText.match(/Grants since \\d[^]*none/) && !document.querySelector('.chart svg').checkVisibility()")
}

// What the address names is one element of a path, whatever it contains.
func TestAddressIsEncoded(t *testing.T) {
	g := serve(t)
	g.register(t, pool, 2, "printers")
	p := open(t, g, desktop)
	p.until(t, "document.querySelector('#pools tbody tr')")
	eval[string](t, p, `window.fetched = [], fetch = ((real) => (path, options) => { fetched.push(path); return real(path, options); })(fetch), ''`)
	for named, path := range map[string]string{"../../health?x": "v1/pools/..%2F..%2Fhealth%3Fx", "%2e%2e/x": "v1/pools/..%2Fx", "..": "v1/pools/-", "50%": "v1/pools/50%25"} {
		eval[string](t, p, "location.hash = 'pool="+named+"'")
		p.until(t, "fetched.includes('"+path+"') && location.hash === ''")
	}
	eval[string](t, p, "location.hash = 'pool=printers'")
	p.until(t, "/^#pool=[0-9a-f]{32}$/.test(location.hash)")
}

// A slot that is lent and out of service is one cell.
func TestLentSlotOut(t *testing.T) {
	g := serve(t)
	g.register(t, pool, 8, "printers")
	g.borrow(t, pool, 60, "")
	g.ask(t, nil, "PUT", "v1/pools/"+pool+"/positions/0", `{"out":true}`)
	p := open(t, g, desktop)
	p.until(t, "document.querySelector('#pools .figures')?.textContent === '1 / 8, 1 out'")
	if cells := eval[string](t, p, "document.querySelector('#pools .cells').style.getPropertyValue('--cells')"); cells != "8" {
		t.Errorf("%s cells for 8 slots", cells)
	}
}

// At 360 pixels names and times have one line each.
func TestNarrow(t *testing.T) {
	const lines = `(selector) => Math.max(...[...document.querySelectorAll(selector)].map((of) => {
		const range = document.createRange();
		range.selectNodeContents(of);
		return new Set([...range.getClientRects()].map((line) => Math.round(line.top))).size;
	}))`
	g := serve(t, "--ui", "admin")
	hash := g.register(t, pool, 1, "the printers on the second floor of the east wing")
	g.borrow(t, pool, 3599, "ci@build7:811 make")
	g.wait(t, pool, "ci@build9:204 make")
	p := open(t, g, narrow)
	p.until(t, "document.querySelector('#pools tbody tr')")
	if n := eval[int](t, p, "("+lines+")('#pools a, #pools td.number')"); n != 1 {
		t.Errorf("the table has a name or a time of %d lines", n)
	}
	p.see(t, hash)
	p.until(t, "document.querySelector('#slots tbody tr')")
	if n := eval[int](t, p, "("+lines+")('#slots td.number, #line td.number')"); n != 1 {
		t.Errorf("the pool has a time of %d lines", n)
	}
	if wide := eval[int](t, p, "document.documentElement.scrollWidth"); wide > 360 {
		t.Errorf("the page is %d pixels wide", wide)
	}
}

// Text of clients is text, wherever it is.
func TestHostileText(t *testing.T) {
	const hostile = `<img src=x onerror=alert(1)>`
	g := serve(t, "--ui", "admin")
	hash := g.register(t, pool, 2, hostile)
	g.borrow(t, pool, 60, hostile)
	g.ask(t, nil, "PUT", "v1/pools/"+pool+"/positions/1", fmt.Sprintf(`{"out":true,"reason":%q}`, hostile))
	g.wait(t, pool, hostile)
	g.ask(t, nil, "PUT", "v1/pools/"+pool+"/pause", fmt.Sprintf(`{"out":true,"reason":%q}`, hostile))
	p := open(t, g, desktop)
	p.see(t, hash)
	p.until(t, "document.querySelector('#line tbody tr')")
	for _, selector := range []string{"#pool-name", "#slots tbody tr:nth-child(1)", "#slots tbody tr:nth-child(2)", "#line tbody", "#paused"} {
		if text := p.text(t, selector); !strings.Contains(text, hostile) {
			t.Errorf("%s is %q", selector, text)
		}
	}
	p.click(t, "#slots tbody tr:nth-child(1) button")
	p.until(t, "document.querySelector('#confirm-text').textContent.includes('onerror')")
	if n := eval[int](t, p, "document.querySelectorAll('main img, dialog img, [onerror]').length"); n > 0 {
		t.Errorf("%d elements were made of it", n)
	}
}

// The buttons end exactly the lease that was shown: none if that has ended meanwhile.
func TestEvict(t *testing.T) {
	g := serve(t, "--ui", "admin")
	hash := g.register(t, pool, 3, "printers")
	stuck := g.borrow(t, pool, 600, "stuck")
	g.borrow(t, pool, 600, "bystander")
	p := open(t, g, desktop)
	p.see(t, hash)
	p.until(t, "document.querySelectorAll('#slots td.verb button').length >= 4")
	p.click(t, `button[aria-label="Evict from slot 0"]`)
	p.until(t, "document.querySelector('#confirm').open && document.querySelector('#confirm-text').textContent.includes('stuck')")
	p.picture(t, "evict")

	// While the dialog is open, another client gets the slot.
	g.giveBack(t, pool, stuck)
	g.borrow(t, pool, 600, "successor")
	p.click(t, "#confirm-yes")
	p.until(t, "document.querySelector('#confirm').open && document.querySelector('#confirm-wrong').textContent.includes('ended already')")
	p.click(t, "#confirm-no")
	p.until(t, "document.querySelector('#slots').innerText.includes('successor') && document.querySelector('#slots').innerText.includes('bystander')")

	p.click(t, `button[aria-label="Evict from slot 0"]`)
	p.until(t, "document.querySelector('#confirm-text').textContent.includes('successor')")
	p.click(t, "#confirm-yes")
	p.until(t, "!document.querySelector('#confirm').open && !document.querySelector('#slots').innerText.includes('successor')")
	var state struct{ Leases []struct{ Label string } }
	g.ask(t, &state, "GET", "v1/pools/"+pool+"/leases", "")
	if len(state.Leases) != 1 || state.Leases[0].Label != "bystander" {
		t.Errorf("the leases are %+v", state.Leases)
	}
}

// Slots and pools are taken out of service and put back, and the count is changed by who knows the
// UUID.
func TestOutPauseCount(t *testing.T) {
	g := serve(t, "--ui", "admin")
	g.register(t, pool, 3, "printers")
	p := open(t, g, desktop)
	p.live(t)
	p.write(t, "#search", pool)
	p.until(t, "document.querySelectorAll('#verbs button').length === 3")

	p.click(t, "#verbs button:nth-child(2)")
	p.until(t, "document.querySelector('#confirm').open")
	p.write(t, "#confirm-fields label:nth-child(1) input", kb.Backspace+"2")
	p.write(t, "#confirm-fields label:nth-child(2) input", "screen broken"+kb.Enter)
	p.until(t, "document.querySelector('#slots tbody').innerText.includes('out of service: screen broken')")
	p.click(t, `button[aria-label="Put slot 2 back"]`)
	p.click(t, "#confirm-yes")
	p.until(t, "!document.querySelector('#slots tbody').innerText.includes('screen broken')")

	p.click(t, "#verbs button:nth-child(1)")
	p.write(t, "#confirm-fields input", "upgrade"+kb.Enter)
	p.until(t, "document.querySelector('#paused').innerText.includes('upgrade')")
	p.click(t, "#verbs button:nth-child(1)")
	p.click(t, "#confirm-yes")
	p.until(t, "document.querySelector('#paused').hidden")

	p.click(t, "#verbs button:nth-child(3)")
	p.write(t, "#confirm-fields input", kb.Backspace+"5"+kb.Enter)
	p.until(t, "document.querySelector('#pool-facts .figures').textContent === '0 / 5'")
	if name := p.text(t, "#pool-name"); name != "printers" {
		t.Errorf("its name is %q by now", name)
	}
}

// With --ui=read there are no buttons that change anything, and with off no page.
func TestUI(t *testing.T) {
	g := serve(t)
	hash := g.register(t, pool, 1, "printers")
	g.borrow(t, pool, 60, "ci")
	p := open(t, g, desktop)
	p.see(t, hash)
	p.until(t, "document.querySelector('#facts').textContent.includes('sync interval')")
	if n := eval[int](t, p, "document.querySelectorAll('#verbs button, #slots button').length"); n > 0 {
		t.Errorf("there are %d buttons", n)
	}
	off := serve(t, "--ui", "off")
	p = open(t, off, desktop)
	if text := p.text(t, "body"); !strings.Contains(text, "openapi.json") {
		t.Errorf("with off a browser gets %s", text)
	}
}

// The UUID of a pool opens it, and is in no address.
func TestUUID(t *testing.T) {
	g := serve(t)
	g.register(t, pool, 1, "")
	p := open(t, g, desktop)
	p.live(t)
	p.write(t, "#search", other)
	p.until(t, "document.querySelector('#notice').textContent.includes('no pool')")
	p.write(t, "#search", strings.ToUpper(pool))
	p.until(t, "!document.querySelector('#pool').hidden && document.querySelector('#pool-facts dd')")
	p.live(t)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, url := range p.urls {
		if strings.Contains(strings.ToLower(url), pool) || strings.Contains(url, other) {
			t.Errorf("the page asks for %s", url)
		}
	}
}

// The table is searched, sorted, turned and opened with keys.
func TestKeyboardAndSearch(t *testing.T) {
	g := serve(t)
	for i := range 60 {
		g.register(t, fmt.Sprintf("%08x%s", i, pool[8:]), 1, fmt.Sprintf("pool-%02d", i))
	}
	g.borrow(t, fmt.Sprintf("%08x%s", 41, pool[8:]), 600, "")
	g.wait(t, fmt.Sprintf("%08x%s", 41, pool[8:]), "")
	p := open(t, g, desktop)
	p.until(t, "document.querySelectorAll('#pools tbody tr').length === 50")
	if first := p.text(t, "#pools tbody tr:first-child a"); first != "pool-41" {
		t.Errorf("the first pool is %s", first)
	}
	p.click(t, "#pages button:last-child")
	p.until(t, "document.querySelectorAll('#pools tbody tr').length === 10 && document.querySelector('#pages span').textContent === 'page 2'")
	p.click(t, "#contended")
	p.until(t, "document.querySelectorAll('#pools tbody tr').length === 1")
	p.click(t, "#contended")
	p.write(t, "#search", "OL-1")
	p.until(t, "document.querySelectorAll('#pools tbody tr').length === 10")
	p.do(t, chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowDown))
	at := eval[string](t, p, "document.activeElement.textContent")
	p.do(t, chromedp.KeyEvent(kb.Enter))
	p.until(t, fmt.Sprintf("document.querySelector('#pool-name').textContent === %q && document.querySelector('#pool-facts dd')", at))
	p.do(t, chromedp.KeyEvent(kb.Escape))
	p.until(t, fmt.Sprintf("!document.querySelector('#list').hidden && document.activeElement.textContent === %q", at))
	p.do(t, chromedp.KeyEvent(kb.Escape))
	p.until(t, "document.querySelectorAll('#pools tbody tr').length === 50")
	p.write(t, "#search", "nothing like it")
	p.until(t, "!document.querySelector('#empty').hidden")
}

// Without a stream of events the page reads once a second.
func TestWithoutEvents(t *testing.T) {
	g := serve(t)
	g.register(t, pool, 2, "printers")
	p := open(t, g, desktop)
	call(t, p, network.SetBlockedURLs, network.SetBlockedURLsParams{URLPatterns: []*network.BlockPattern{{URLPattern: "http://*:*/v1/events*", Block: true}}})
	p.do(t, chromedp.Reload())
	p.until(t, "document.querySelector('#pools tbody tr')")
	g.borrow(t, pool, 60, "")
	p.until(t, "document.querySelector('#pools .figures').textContent === '1 / 2'")
	if p.text(t, "#live") == "live" {
		t.Error("the page seems live")
	}
}
