package browser

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// tab is the page in a tab of a browser context of its own. At the end of each test it is an error
// if the page has asked another host, broken its policy, or thrown an exception.
type tab struct {
	ctx context.Context

	mu    sync.Mutex
	urls  []string // that it has asked for
	wrong []string
}

// shape is how a tab looks.
type shape struct {
	width, height int64
	dark          bool
}

var desktop = shape{width: 1200, height: 800}

// open opens the page.
func open(t *testing.T, g *gateway, s shape) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(chromium, chromedp.WithNewBrowserContext())
	p := &tab{ctx: ctx}
	t.Cleanup(func() {
		cancel()
		p.check(t, g)
	})
	if err := chromedp.Listen(ctx, p.note); err != nil {
		t.Fatal(err)
	}
	scheme := "light"
	if s.dark {
		scheme = "dark"
	}
	media := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
	call(t, p, audits.Enable, cdp.Empty{})
	call(t, p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: media})
	p.do(t, chromedp.EmulateViewport(s.width, s.height), chromedp.Navigate(g.url()))
	return p
}

func (p *tab) note(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch event := event.(type) {
	case *network.EventRequestWillBeSent:
		p.urls = append(p.urls, event.Request.URL)
	case *audits.EventIssueAdded:
		if event.Issue.Details.ContentSecurityPolicyIssueDetails != nil {
			p.wrong = append(p.wrong, fmt.Sprintf("the policy is broken: %+v", event.Issue.Details.ContentSecurityPolicyIssueDetails))
		}
	case *runtime.EventExceptionThrown:
		p.wrong = append(p.wrong, fmt.Sprintf("%+v", event.ExceptionDetails))
	}
}

func (p *tab) check(t *testing.T, g *gateway) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, wrong := range p.wrong {
		t.Error(wrong)
	}
	for _, text := range p.urls {
		if u, err := url.Parse(text); err != nil || u.Host != g.addr {
			t.Errorf("the page asks for %s", text)
		}
	}
}

func (p *tab) do(t *testing.T, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, limit)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

// result returns the value of an action.
func result[T any](t *testing.T, p *tab, action chromedp.Action[T]) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, limit)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// call sends a command to the browser.
func call[P, R any](t *testing.T, p *tab, command cdp.Command[P, R], params P) {
	t.Helper()
	p.do(t, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, command, params)
		return err
	}))
}

// eval returns the value of an expression in the page.
func eval[T any](t *testing.T, p *tab, expression string) T {
	t.Helper()
	return result(t, p, chromedp.Evaluate[T](expression))
}

// until waits until an expression in the page is true.
func (p *tab) until(t *testing.T, expression string) {
	t.Helper()
	end := time.Now().Add(limit)
	for !eval[bool](t, p, "Boolean("+expression+")") {
		if time.Now().After(end) {
			p.picture(t, "failed-"+filepath.Base(t.Name()))
			t.Fatalf("never: %s\n%s", expression, eval[string](t, p, "document.body.innerText"))
		}
	}
}

// text returns the text of an element.
func (p *tab) text(t *testing.T, selector string) string {
	t.Helper()
	return eval[string](t, p, fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector))
}

// click clicks an element that the page shows.
func (p *tab) click(t *testing.T, selector string) {
	t.Helper()
	p.do(t, chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

func (p *tab) write(t *testing.T, selector, text string) {
	t.Helper()
	p.do(t, chromedp.SendKeys(chromedp.CSS(selector), text, chromedp.NodeVisible))
}

// live waits until the page follows events.
func (p *tab) live(t *testing.T) {
	t.Helper()
	p.until(t, "document.querySelector('#live').dataset.state === 'live'")
}

// see opens a pool whose name is in the table, and waits for it.
func (p *tab) see(t *testing.T, hash string) {
	t.Helper()
	p.until(t, fmt.Sprintf("document.querySelector('#pools a[href=\"#pool=%s\"]')", hash))
	p.click(t, fmt.Sprintf("#pools a[href=\"#pool=%s\"]", hash))
	p.until(t, "document.querySelector('#pool-facts dd')")
	p.live(t)
}

// seen measures when an expression becomes true: at each change of the page.
func (p *tab) watchFor(t *testing.T, expression string) {
	t.Helper()
	eval[bool](t, p, fmt.Sprintf(`window.seenAt = 0; window.seeing?.disconnect();
		window.seeing = new MutationObserver(() => { if (!window.seenAt && (%s)) window.seenAt = Date.now(); });
		window.seeing.observe(document.body, {subtree: true, childList: true, characterData: true, attributes: true}); true`, expression))
}

// seenAfter returns how long after an instant the expression of watchFor was true.
func (p *tab) seenAfter(t *testing.T, at time.Time) time.Duration {
	t.Helper()
	p.until(t, "window.seenAt")
	return time.UnixMilli(int64(eval[float64](t, p, "window.seenAt"))).Sub(at)
}

// settle waits until the page has not read anything for longer than it coalesces changes.
func (p *tab) settle(t *testing.T) {
	t.Helper()
	p.until(t, `(() => { const n = performance.getEntriesByType('resource').filter((e) => e.name.includes('v1/pools')).at(-1);
		return n && performance.now() - n.startTime > 1100; })()`)
}

// picture writes a picture of what is visible into the directory for pictures.
func (p *tab) picture(t *testing.T, name string) {
	t.Helper()
	content := result(t, p, chromedp.CaptureScreenshot())
	file := filepath.Join(pictures, name+".png")
	if err := os.WriteFile(file, content, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Log(file)
}
