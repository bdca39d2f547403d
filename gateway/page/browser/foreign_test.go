package browser

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// What a page of another origin does with the gateway and with --tcp-addr, in a browser of a machine on
// which both listen on loopback. %[1]s is the address of the gateway, %[2]s that of --tcp-addr.
const foreignPage = `<!doctype html><title>waits</title><script>
const attempts = [];
const note = (name, outcome) => attempts.push(outcome.then((got) => name + ': ' + got));
const send = (url, options) => fetch(url, options).then(async (answer) => answer.type + ' ' + (await answer.text()).length, () => 'failed');
const load = (tag, from) => new Promise((done) => {
  const made = document.createElement(tag);
  made.onload = () => done('loaded');
  made.onerror = () => done('failed');
  made[tag === 'object' ? 'data' : 'src'] = from;
  document.body.append(made);
});
onload = async () => {
  note('lock by lines', send('http://%[2]s/', { method: 'POST', mode: 'no-cors', body: 'l\ndeploy\n0 3600\n'.repeat(3) }));
  note('session', send('http://%[1]s/v1/sessions', { method: 'POST', mode: 'no-cors' }));
  note('list', send('http://%[1]s/v1/pools'));
  for (const name of ['held', 'free']) {
    note('object ' + name, load('object', 'http://%[1]s/v1/locks/' + name));
    note('script ' + name, load('script', 'http://%[1]s/v1/locks/' + name));
    note('image ' + name, load('img', 'http://%[1]s/v1/locks/' + name));
    note('opaque ' + name, send('http://%[1]s/v1/locks/' + name, { mode: 'no-cors' }));
  }
  document.title = (await Promise.all(attempts)).join(', ');
};
</script>`

// A page of another origin takes no lock, reads nothing, and does not learn whether a lock is held.
func TestForeignPage(t *testing.T) {
	g := serve(t, "--tcp-addr", "127.0.0.1:0")
	var session struct {
		ID string `json:"session_id"`
	}
	g.ask(t, &session, "POST", "v1/sessions", "")
	r, err := http.NewRequestWithContext(t.Context(), "POST", g.url()+"v1/locks/held", strings.NewReader(`{"acquire_timeout_s":0}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Dflockd-Session", session.ID)
	answer, err := http.DefaultClient.Do(r)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer, err)
	}
	answer.Body.Close()
	before := g.sessions(t)
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, foreignPage, g.addr, g.tcp)
	}))
	t.Cleanup(evil.Close)
	tab, end := chromedp.NewContext(chromium)
	defer end()
	title := "waits"
	if err := chromedp.Do(tab, chromedp.Navigate(strings.Replace(evil.URL, "127.0.0.1", "localhost", 1))); err != nil {
		t.Fatal(err)
	}
	eventually(t, "outcome of all attempts", func() bool {
		title, err = chromedp.Run(tab, chromedp.Title())
		return err == nil && title != "" && title != "waits"
	})
	const same = "object %[1]s: failed, script %[1]s: failed, image %[1]s: failed, opaque %[1]s: failed"
	want := "lock by lines: failed, session: failed, list: failed, " + fmt.Sprintf(same, "held") + ", " + fmt.Sprintf(same, "free")
	if title != want {
		t.Errorf("the page got\n%s, want\n%s", title, want)
	}
	if now := g.sessions(t); now != before {
		t.Errorf("%s, before it was %s", now, before)
	}
}

// sessions returns the metrics of sessions, grants and locks.
func (g *gateway) sessions(t *testing.T) (lines string) {
	t.Helper()
	answer, err := http.Get(g.url() + "metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "kvslots_sessions ") || strings.HasPrefix(line, "kvslots_grants_total") {
			lines += line
		}
	}
	return lines
}
